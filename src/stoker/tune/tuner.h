// Finds a faster recipe: predicts what each change would gain, applies the best, compares it with what is there in a
// paired measurement, and keeps it or rolls it back, until nothing helps or the time is spent.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/base/statistics.h"
#include "stoker/recipe/recipe.h"
#include "stoker/tune/paired.h"
#include "stoker/tune/prober.h"
#include "stoker/tune/trial.h"
#include "stoker/tune/variants.h"

namespace stoker {

// Packs `samples` samples, or fewer, so that it takes about `seconds` at most.
struct PackRequest {
    std::string codec;
    std::int64_t samples = 0;
    double seconds = 0;
};

// A part of the training data, packed. The search removes it when it is not used any more.
struct PackedPart {
    std::filesystem::path path;
    double bytes_per_sample = 0;
    std::int64_t left_out = 0;  // samples that cannot be read
};

struct TuneOptions {
    double budget_seconds = 300;
    Allowed allowed = {};
    bool keep_packed = false;  // packing may be kept; otherwise it is a suggestion
    PairedOptions paired = {.worth = 1};
    // Empty if the data cannot be packed so; throws TrialFailed if packing fails. Null: packing is not tried.
    std::function<std::optional<PackedPart>(const PackRequest& request)> pack_sample = nullptr;
    // The validation data's samples; empty if unknown. Trials have none. Is asked before a cache is tried.
    std::function<std::optional<std::int64_t>()> val_samples = nullptr;
    // One line on what is being done.
    std::function<void(const std::string& line)> on_progress = nullptr;
};

// A change, tried or not. Factors of throughput, against the recipe with all changes that were kept before.
struct TriedChange {
    std::vector<RecipeChange> change;       // empty for packing that was not kept: its file is gone
    std::vector<std::string> before = {};   // the values of the changed keys, as TOML
    std::string pack_codec = {};            // not empty: packing the data with this codec
    std::optional<double> predicted = {};   // empty: its costs were not measured
    std::optional<Estimate> measured = {};  // empty: it failed, or was not tried
    std::string reason = {};                // why it was rolled back or not tried; empty: it was kept
};

struct TuneResult {
    // Images per second. `gain` is their ratio, measured in turn: by the comparison of the one change that was kept, or
    // of several together at the end. Without `gain` (nothing was kept, or the end was not reached) each is the latest
    // that was measured.
    double baseline = 0;
    double tuned = 0;
    std::optional<Estimate> gain = {};
    std::vector<TriedChange> kept = {};
    std::vector<TriedChange> rolled_back = {};
    std::vector<TriedChange> suggested = {};  // packing that would help, without TuneOptions::keep_packed
    std::vector<TriedChange> untried = {};    // changes that promise a gain, for which the time did not suffice
    double seconds = 0;
    bool interrupted = false;
};

// Throws TrialFailed if the recipe itself cannot be measured, and TrialStopped if it was stopped before that.
TuneResult tune(const Recipe& recipe, const std::vector<std::string>& sets, const TuneOptions& options,
                const OpenTrial& open);

}  // namespace stoker
