// Reads a run folder, complete or damaged: recipe.toml, metrics.jsonl, account.json and failed.json are read
// independently, and a problem with one of them is listed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stoker/track/metrics_file.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {

inline constexpr const char* kRecipeFile = "recipe.toml";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kAccountFile = "account.json";
inline constexpr const char* kFailedFile = "failed.json";

struct RunRecord {
    std::filesystem::path path;
    std::string name;   // for display; the caller may change it
    RecipeKeys recipe;  // empty if recipe.toml is missing or invalid
    Metrics metrics;
    std::string device;                            // empty until the run has written account.json
    std::optional<std::int64_t> planned = {};      // epochs
    bool finished = false;                         // all epochs are done and account.json confirms it
    bool interrupted = false;                      // stopped by a signal after metrics.last_step()
    std::string error = {};                        // why the run failed; empty if it did not
    std::optional<std::int64_t> modified_ns = {};  // since 1970: the latest change of a file
    std::vector<std::string> problems = {};        // one line each, e.g. "no metrics.jsonl"

    std::string key(const std::string& recipe_key) const;  // empty if the recipe lacks the key
    std::string model() const;                             // the file of an imported model, else model.name
    double seconds() const;                                // of all finished epochs
    double images_per_second() const;                      // over all finished epochs; 0 if there are none
};

// Does not throw, whatever the folder contains.
RunRecord read_run(const std::filesystem::path& path, MetricLines lines = MetricLines::all);

// True if the folder contains a recipe.toml, metrics.jsonl or account.json.
bool is_run_folder(const std::filesystem::path& path);

struct Unreadable {
    std::filesystem::path folder;
    std::string reason;
};

struct FoundRuns {
    std::vector<std::filesystem::path> paths = {};  // sorted
    std::vector<Unreadable> unreadable = {};        // may hold more
};

// All run folders at or below `root`. Run folders inside run folders are skipped; links to folders are not followed.
// Throws IoError if `root` is not a folder or cannot be read.
FoundRuns find_runs(const std::filesystem::path& root);

}  // namespace stoker
