#include "stoker/profile/profile_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/diagnose/report/html_report.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/io/gzip.h"
#include "stoker/profile/chrome_trace.h"
#include "stoker/profile/key_averages.h"
#include "stoker/profile/profile_page.h"
#include "stoker/profile/profile_tables.h"
#include "stoker/profile/stack_exports.h"
#include "stoker/profile/stacks.h"
#include "stoker/train/run/atomic_folder.h"

namespace stoker {
namespace {

// What write_page and write_tables write.
constexpr std::array kFiles = {"report.html", "metrics.jsonl",   "recipe.toml", "operators.json",
                               "memory.json", "speedscope.json", "stacks.txt",  "profile.pstats"};

}  // namespace

std::vector<std::filesystem::path> prepare_profile_folder(const std::filesystem::path& folder) {
    std::error_code error;
    const auto* const taken =
        std::ranges::find_if(kFiles, [&](const char* name) { return std::filesystem::exists(folder / name, error); });
    if (taken != kFiles.end() && !std::filesystem::exists(folder / kTraceFolder, error)) {
        throw IoError({.where = (folder / *taken).string(),
                       .expected = "a new file, or one of an earlier profile",
                       .got = "another file",
                       .hint = "name another folder with -o"});
    }
    require_no_link(folder / kTraceFolder);
    std::filesystem::create_directories(folder / kTraceFolder, error);
    if (error) {
        throw IoError({.where = (folder / kTraceFolder).string(),
                       .expected = "a folder that can be made",
                       .got = errno_text(error.value())});
    }
    std::vector<std::filesystem::path> earlier;
    for (const auto& entry : std::filesystem::directory_iterator(folder / kTraceFolder, error)) {
        if (entry.path().filename().string().ends_with(".pt.trace.json.gz")) {
            earlier.push_back(entry.path());
        }
    }
    return earlier;
}

void remove_traces(const std::vector<std::filesystem::path>& traces) {
    for (const std::filesystem::path& trace : traces) {
        std::error_code none;  // another process may have removed it
        std::filesystem::remove(trace, none);
    }
}

ProfileFile write_trace(const std::filesystem::path& folder, const Profile& profile, const DeviceFacts& device) {
    const std::string text = chrome_trace(profile, device);
    const std::array<std::span<const std::byte>, 1> pieces{std::as_bytes(std::span(text))};
    const Buffer packed = gzip(pieces);
    const std::array<std::span<const std::byte>, 1> bytes{packed.bytes()};
    const std::filesystem::path path = folder / kTraceFolder / trace_file_name(profile);
    write_file(path, bytes, /*sync=*/false);
    return {.path = path, .purpose = "timeline, for ui.perfetto.dev, TensorBoard and HolisticTraceAnalysis"};
}

void add_trace(RunRecords& records, int rank, const std::filesystem::path& trace) {
    RunRecords read = read_traces(std::array{trace});
    for (RankRecords& entry : records.ranks) {
        if (entry.facts.rank == rank) {
            entry.profile = std::move(read.ranks.front().profile);
        }
    }
    std::ranges::move(read.problems, std::back_inserter(records.problems));
}

ProfileFile write_page(const std::filesystem::path& folder, const ProfiledRun& run, const Diagnosis& diagnosis,
                       const std::string& name) {
    const std::filesystem::path path = folder / "report.html";
    write_file(path, report_html(profile_page(run, diagnosis, name)));
    return {.path = path, .purpose = "everything on one page, for a browser"};
}

std::vector<ProfileFile> write_tables(const std::filesystem::path& folder, const ProfiledRun& run,
                                      const std::string& name) {
    const Profile& profile = run.profile;
    const std::vector<ThreadStacks> stacks = thread_stacks(profile, run.nodes);
    std::vector<ProfileFile> files;
    const auto write = [&](std::string_view file, const std::string& text, std::string purpose) {
        write_file(folder / file, text);
        files.push_back({.path = folder / file, .purpose = std::move(purpose)});
    };
    write("metrics.jsonl", fmt::format("{}\n", fmt::join(run.lines, "\n")),
          "records of every step, for stoker diagnose");
    write("recipe.toml", run.recipe, "the recipe as it was profiled");
    write("operators.json", operators_json(profile, key_averages(profile, run.nodes, GroupBy::shape)),
          "time, memory and FLOPs of each operator and shape");
    write("memory.json", memory_json(profile), "allocated memory over time");
    write("speedscope.json", speedscope_json(stacks, name), "call stacks, for speedscope.app");
    write("stacks.txt", collapsed_stacks(stacks), "call stacks, for flamegraph.pl");
    write("profile.pstats", pstats_file(stacks), "call stacks, for snakeviz and pstats");
    return files;
}

}  // namespace stoker
