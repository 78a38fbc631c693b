#include "cli/commands/diagnose_paths.h"

#include <algorithm>
#include <filesystem>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/run_reader.h"
#include "stoker/diagnose/torch_trace/natural_order.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool is_trace_name(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.ends_with(".json") || name.ends_with(".json.gz");
}

struct TraceFiles {
    std::vector<fs::path> paths = {};
    std::size_t listed = 0;  // the last so many were found in folders
};

// Names the newest run of a folder of runs. It looks one level down only, since the folder may hold a whole disk.
ErrorInfo neither_run_nor_traces(const fs::path& folder) {
    std::vector<fs::path> runs = list_folder(folder);
    std::erase_if(runs, [](const fs::path& run) { return !is_file(run / kMetricsFile); });
    const auto written = [](const fs::path& run) {
        std::error_code gone;
        return fs::last_write_time(run / kMetricsFile, gone);
    };
    return {.where = folder.string(),
            .expected = "a run folder with metrics.jsonl, or traces (.json, .json.gz)",
            .got = runs.empty() ? "a folder with neither" : "a folder of " + pluralize(std::ssize(runs), "run"),
            .hint = runs.empty() ? "" : "the newest is " + std::ranges::max_element(runs, {}, written)->string()};
}

// The traces of a folder, as tensorboard_trace_handler writes them; a file stands for itself, and comes first.
TraceFiles traces_of(const std::vector<std::string>& paths) {
    TraceFiles traces;
    std::vector<fs::path> listed;
    for (const fs::path path : paths) {
        if (!is_folder(path)) {
            traces.paths.push_back(path);
            continue;
        }
        std::vector<fs::path> found = list_folder(path);
        std::erase_if(found, [](const fs::path& file) { return !is_file(file) || !is_trace_name(file); });
        if (found.empty()) {
            throw InvalidArgument(neither_run_nor_traces(path));
        }
        std::ranges::sort(found, [](const fs::path& a, const fs::path& b) {
            return NaturalLess()(a.filename().string(), b.filename().string());
        });
        listed.insert(listed.end(), found.begin(), found.end());
    }
    traces.paths.insert(traces.paths.end(), listed.begin(), listed.end());
    traces.listed = listed.size();
    return traces;
}

// "runs/photos", "runs/photos/" and "." there are all "photos".
std::string name_of(const fs::path& path) {
    const fs::path whole = fs::absolute(path).lexically_normal();
    return whole.has_filename() ? whole.filename() : whole.parent_path().filename();
}

}  // namespace

bool has_records(const std::string& path) {
    return is_file(fs::path(path) / kMetricsFile);
}

RunRecords read_diagnosed(std::vector<std::string> paths) {
    const auto traces = std::stable_partition(paths.begin(), paths.end(), has_records);
    const auto runs = static_cast<std::size_t>(traces - paths.begin());
    if (runs > 1) {
        throw InvalidArgument({.where = "diagnose",
                               .expected = "one run folder, traces, or a run folder and traces of it",
                               .got = std::to_string(runs) + " run folders",
                               .hint = "two run folders alone are compared; with traces: NEW... --against OLD..."});
    }
    std::vector<std::string> of_traces(traces, paths.end());
    if (const fs::path own = fs::path(paths.front()) / "trace"; runs == 1 && of_traces.empty() && is_folder(own)) {
        of_traces.push_back(own);  // what stoker profile has written
    }
    const TraceFiles traced = traces_of(of_traces);
    if (runs == 0) {
        return read_traces(traced.paths, traced.listed);
    }
    RunRecords records = read_run_records(paths.front());
    if (!traced.paths.empty()) {
        add_traces(records, traced.paths, traced.listed);
    }
    return records;
}

std::string title_of(const std::string& path, const RunRecords& records) {
    const std::string program = records.ranks.empty() ? "" : records.ranks.front().facts.program;
    return program.empty() ? name_of(path) : program;
}

}  // namespace stoker::cli
