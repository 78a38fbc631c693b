// What tuning may change besides the numbers of workers and threads: each variant changes the costs of the loader or of
// the step, which a probe measures.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stoker/base/statistics.h"
#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/prediction.h"
#include "stoker/recipe/recipe.h"
#include "stoker/tune/trial.h"

namespace stoker {

// What tuning may change although the model learns differently. Everything else gives the same samples in the same
// order to the same model.
struct Allowed {
    bool precision = false;
    bool decode = false;
    bool batch_size = false;
};
// Reads the names of the members. Throws InvalidArgument for another name.
Allowed parse_allowed(const std::vector<std::string>& names);

enum class Part : std::uint8_t { loader, step, both };

struct Variant {
    std::vector<RecipeChange> change;
    Part part = Part::loader;           // whose costs it changes
    std::string pack_codec = {};        // not empty: the data is packed with this codec
    std::filesystem::path sample = {};  // the packed part of the data that it is measured with
    bool queue = false;                 // it changes no cost, but how many batches are ready
    std::optional<Costs> costs = {};    // measured by a probe; of the changed part only, and its fetches
    std::string refused = {};           // why it cannot be tried
    bool tried = false;
    bool tried_along = false;  // with other workers or threads, which were tried along with it
};

// Whether the model has convolutions, for which the memory layout matters.
bool has_convolutions(const ModelRecipe& model);

// The variants of a recipe, as far as they change it.
std::vector<Variant> variants_of(const Recipe& recipe, const TrialFacts& facts, const Allowed& allowed);

// The costs with the changed part taken from the variant. A loader's variant has its own fetch rates.
Costs with_variant(Costs costs, const Variant& variant);

// The costs if the changed part took no time: no variant can do better.
Costs without_part(Costs costs, Part part);

bool has_cache(const std::vector<RecipeChange>& change);
// Removes the packed part of the data that the variant was measured with, if there is one.
void remove_sample(const Variant& variant);

// "data.cache = \"ram\"", or "packing with --codec dct".
std::string name_of(const Variant& variant);
// "data.workers=4", for TrialSpec.
std::vector<std::string> sets_of(const std::vector<RecipeChange>& change);
// "data.workers = 4, data.cache = \"ram\""
std::string text_of(const std::vector<RecipeChange>& change);
// "1.74x [1.70, 1.79]"; "1.74x" without an interval.
std::string text_of(const Estimate& ratio);

// The change with data.cache_bytes, in whole GiB.
std::vector<RecipeChange> with_cache_bytes(std::vector<RecipeChange> change, double bytes);

}  // namespace stoker
