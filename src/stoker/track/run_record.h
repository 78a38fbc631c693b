// What a run folder tells of its run, whole or broken: recipe.toml, metrics.jsonl, account.json and failed.json are
// read each for itself, and what one of them lacks is said and no reason to pass over the others.
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
    std::string name;   // set by who lists it
    RecipeKeys recipe;  // empty where recipe.toml is missing or is none
    Metrics metrics;
    std::string device;                            // empty: not known, which it is from the first stop on
    std::optional<std::int64_t> planned = {};      // epochs
    bool finished = false;                         // all of them are done, and the run has said so
    bool interrupted = false;                      // stopped by a signal after metrics.last_step()
    std::string error = {};                        // why it failed there; empty where it did not
    std::optional<std::int64_t> modified_ns = {};  // since 1970: when one of the files was last written
    std::vector<std::string> problems = {};        // one line each: "no metrics.jsonl", ...

    std::string key(const std::string& recipe_key) const;  // empty where the recipe has none
    double seconds() const;                                // of all finished epochs
    double images_per_second() const;                      // over all finished epochs; 0 where there is none
};

// Does not throw for whatever the folder holds.
RunRecord read_run(const std::filesystem::path& path, MetricLines lines = MetricLines::all);

// True where the folder holds a recipe.toml, metrics.jsonl or account.json.
bool is_run_folder(const std::filesystem::path& path);

// All run folders at or below `root`, by name; none within another, and links to folders are not followed. Throws
// IoError where `root` is no folder.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& root);

}  // namespace stoker
