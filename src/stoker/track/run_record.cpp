// A process writes account.json when it finishes or stops its run. If metrics.jsonl has later steps, account.json is
// outdated: the run was resumed, and is running or was killed.
#include "stoker/track/run_record.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Calls read(path) if the file exists and updates modified_ns. Errors become problems of the run, and so does an
// expected file that is missing.
template <typename Read>
void read_if_present(RunRecord& run, const char* name, bool expected, const Read& read) {
    std::error_code none;
    if (!fs::exists(run.path / name, none)) {
        if (expected) {
            run.problems.push_back(fmt::format("no {}", name));
        }
        return;
    }
    try {
        const std::int64_t modified = File(run.path / name).info().modified_ns;
        run.modified_ns = std::max(run.modified_ns.value_or(modified), modified);
        read(run.path / name);
    } catch (const Error& error) {
        run.problems.emplace_back(error.what());
    } catch (const Json::exception&) {
        run.problems.push_back(fmt::format("{} was not written by Stoker", name));
    }
}

void read_recipe_file(RunRecord& run, const fs::path& path) {
    run.recipe = recipe_keys(read_text(path), path.string());
    const std::string epochs = run.key("train.epochs");
    std::int64_t planned = 0;
    const auto parsed = std::from_chars(epochs.data(), epochs.data() + epochs.size(), planned);
    if (!epochs.empty() && parsed.ec == std::errc() && parsed.ptr == epochs.data() + epochs.size()) {
        run.planned = planned;
    }
}

void read_account(RunRecord& run, const fs::path& path) {
    const Json account = parse_own_json<Json>(read_text(path));
    run.device = account.at("device").get<std::string>();
    const auto steps = account.at("steps").get<std::int64_t>();
    const bool interrupted = account.at("interrupted").get<bool>();
    const bool current = steps >= run.metrics.last_step();
    const std::int64_t done = run.metrics.last_epoch();
    run.interrupted = interrupted && current;
    const bool early = account.value("stopped_early", false);
    run.finished = !interrupted && current && done > 0 && (early || done >= run.planned.value_or(done));
}

void read_failure(RunRecord& run, const fs::path& path) {
    run.error = parse_own_json<Json>(read_text(path)).at("error").get<std::string>();
    run.interrupted = run.finished = false;
}

}  // namespace

std::string RunRecord::key(const std::string& recipe_key) const {
    const auto found = recipe.find(recipe_key);
    return found == recipe.end() ? "" : found->second;
}

std::string RunRecord::model() const {
    for (const char* imported : {"model.script", "model.export"}) {
        if (std::string file = key(imported); !file.empty()) {
            return file;
        }
    }
    return key("model.name");
}

double RunRecord::seconds() const {
    double sum = 0;
    for (const EpochResult& epoch : metrics.epochs) {
        sum += epoch.seconds;
    }
    return sum;
}

double RunRecord::images_per_second() const {
    double images = 0;
    for (const EpochResult& epoch : metrics.epochs) {
        images += epoch.images_per_second * epoch.seconds;
    }
    return seconds() > 0 ? images / seconds() : 0;
}

RunRecord read_run(const fs::path& path, MetricLines lines) {
    RunRecord run{.path = path, .name = path.string(), .recipe = {}, .metrics = {}, .device = {}};
    read_if_present(run, kRecipeFile, true, [&](const fs::path& file) { read_recipe_file(run, file); });
    read_if_present(run, kMetricsFile, true, [&](const fs::path& file) { run.metrics = read_metrics(file, lines); });
    read_if_present(run, kAccountFile, false, [&](const fs::path& file) { read_account(run, file); });
    read_if_present(run, kFailedFile, false, [&](const fs::path& file) { read_failure(run, file); });
    return run;
}

bool is_run_folder(const fs::path& path) {
    std::error_code none;
    return std::ranges::any_of(std::initializer_list<const char*>{kRecipeFile, kMetricsFile, kAccountFile},
                               [&](const char* name) { return fs::is_regular_file(path / name, none); });
}

namespace {

// A folder that cannot be read does not end the search of the others.
void find_below(const fs::path& folder, std::vector<fs::path>& runs, std::vector<Unreadable>& unreadable) {
    std::error_code error;
    auto at = fs::directory_iterator(folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
        std::error_code none;
        if (!at->is_directory(none) || at->is_symlink(none)) {
            continue;
        }
        if (is_run_folder(at->path())) {
            runs.push_back(at->path());
        } else {
            find_below(at->path(), runs, unreadable);
        }
    }
    if (error) {
        unreadable.push_back({folder, error.message()});
    }
}

}  // namespace

FoundRuns find_runs(const fs::path& root) {
    std::error_code error;
    if (!fs::is_directory(root, error)) {
        throw IoError({.where = root.string(),
                       .expected = "a folder with run folders",
                       .got = fs::exists(root, error) ? "a file" : "a name that does not exist"});
    }
    if (is_run_folder(root)) {
        return {.paths = {root}, .unreadable = {}};
    }
    FoundRuns found;
    find_below(root, found.paths, found.unreadable);
    if (const auto own = std::ranges::find(found.unreadable, root, &Unreadable::folder);
        own != found.unreadable.end()) {
        throw IoError({.where = root.string(), .expected = "a folder that can be read", .got = own->reason});
    }
    std::ranges::sort(found.paths);
    return found;
}

}  // namespace stoker
