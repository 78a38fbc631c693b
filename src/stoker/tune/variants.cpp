#include "stoker/tune/variants.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

// Batches ahead: enough for samples of uneven cost.
constexpr int kPrefetch = 4;

// A part of this cost takes no visible time.
constexpr double kNoSeconds = 1e-9;

// bf16 is the same precision that "auto" chooses on a GPU.
bool is_single_precision(const Recipe& recipe, const TrialFacts& facts) {
    const std::string& precision = recipe.train.precision;
    return precision == "fp32" || precision == "tf32" || (precision == "auto" && facts.device == "cpu");
}

bool resizes(const std::vector<OpSpec>& ops) {
    return std::ranges::any_of(ops, [](const OpSpec& op) { return op.name.find("resize") != std::string::npos; });
}

void add_loader_variants(std::vector<Variant>& variants, const Recipe& recipe, const TrialFacts& facts,
                         const Allowed& allowed) {
    const bool drawn = recipe.data.train.starts_with("synth:");
    const bool remote = recipe.data.train.find("://") != std::string::npos;
    const bool images = facts.format == "image_folder" || facts.format == "webdataset" || facts.format == "tfrecord" ||
                        facts.format == "stk";
    if (recipe.data.prefetch < kPrefetch) {
        variants.push_back({.change = {{"data.prefetch", fmt::to_string(kPrefetch)}}, .queue = true});
    }
    if (recipe.data.cache == "none" && recipe.data.mix.empty()) {  // trials use all samples of a mixture
        variants.push_back({.change = {{"data.cache", "\"ram\""}}});
    }
    if (images && recipe.data.decode == "exact" && allowed.decode && resizes(recipe.data.train_ops)) {
        variants.push_back({.change = {{"data.decode", "\"fast\""}}});
    }
    const bool decodes_exactly = recipe.data.decode == "exact" && recipe.data.channels != 1;
    if (facts.device != "cpu" && facts.codec.starts_with("dct") && decodes_exactly && recipe.data.decode_on == "cpu" &&
        recipe.data.cache == "none") {
        variants.push_back({.change = {{"data.decode_on", "\"auto\""}}});
    }
    for (const char* codec : {"dct", "raw"}) {
        if (recipe.data.exif && std::string_view(codec) == "raw") {
            continue;  // raw pixels have lost the orientation
        }
        if (recipe.data.mix.empty() && !drawn && !remote && images && codec != facts.codec) {
            variants.push_back({.change = {}, .pack_codec = codec});
        }
    }
}

void add_step_variants(std::vector<Variant>& variants, const Recipe& recipe, const TrialFacts& facts,
                       const Allowed& allowed) {
    const TrainRecipe& train = recipe.train;
    if (has_convolutions(recipe.model)) {
        variants.push_back(
            {.change = {{"train.channels_last", train.channels_last ? "false" : "true"}}, .part = Part::step});
    }
    if (train.compile == "none") {
        variants.push_back({.change = {{"train.compile", "\"auto\""}}, .part = Part::step});
    }
    if (train.gradient_checkpointing) {
        variants.push_back({.change = {{"train.gradient_checkpointing", "false"}}, .part = Part::step});
    }
    if (allowed.precision && is_single_precision(recipe, facts)) {
        variants.push_back({.change = {{"train.precision", "\"bf16\""}}, .part = Part::step});
    }
    if (allowed.batch_size) {
        variants.push_back(
            {.change = {{"data.batch_size", fmt::to_string(2 * recipe.data.batch_size)}}, .part = Part::both});
    }
    if (facts.device != "cpu" && !recipe.data.pin_memory) {
        variants.push_back({.change = {{"data.pin_memory", "true"}}, .part = Part::both});
    }
}

}  // namespace

bool has_convolutions(const ModelRecipe& model) {
    return model.name != "mlp" || !model.script.empty() || !model.exported.empty();
}

Allowed parse_allowed(const std::vector<std::string>& names) {
    Allowed allowed;
    for (const std::string& name : names) {
        if (name == "precision") {
            allowed.precision = true;
        } else if (name == "decode") {
            allowed.decode = true;
        } else if (name == "batch_size") {
            allowed.batch_size = true;
        } else {
            throw InvalidArgument({.where = "--allow",
                                   .expected = "precision, decode or batch_size",
                                   .got = fmt::format("\"{}\"", name)});
        }
    }
    return allowed;
}

std::vector<Variant> variants_of(const Recipe& recipe, const TrialFacts& facts, const Allowed& allowed) {
    std::vector<Variant> variants;
    add_loader_variants(variants, recipe, facts, allowed);
    add_step_variants(variants, recipe, facts, allowed);
    return variants;
}

Costs with_variant(Costs costs, const Variant& variant) {
    if (variant.costs && variant.part != Part::step) {
        costs.load = variant.costs->load;
        costs.fetch = variant.costs->fetch;
    }
    if (variant.costs && variant.part != Part::loader) {
        costs.step = variant.costs->step;
    }
    return costs;
}

Costs without_part(Costs costs, Part part) {
    if (part != Part::step) {
        for (LoadCost& cost : costs.load) {
            cost.seconds = kNoSeconds;
            cost.cpu_seconds = 0;
        }
        costs.fetch.clear();
    }
    if (part != Part::loader) {
        for (StepCost& cost : costs.step) {
            cost.seconds = kNoSeconds;
            cost.cpu_seconds = 0;
        }
    }
    return costs;
}

bool has_cache(const std::vector<RecipeChange>& change) {
    return std::ranges::any_of(change, [](const RecipeChange& each) { return each.key == "data.cache"; });
}

void remove_sample(const Variant& variant) {
    if (std::error_code ignored; !variant.sample.empty()) {
        std::filesystem::remove_all(variant.sample, ignored);
    }
}

std::string name_of(const Variant& variant) {
    return variant.pack_codec.empty() ? text_of(variant.change) : "packing with --codec " + variant.pack_codec;
}

std::vector<std::string> sets_of(const std::vector<RecipeChange>& change) {
    std::vector<std::string> sets;
    for (const RecipeChange& each : change) {
        sets.push_back(fmt::format("{}={}", each.key, each.value));
    }
    return sets;
}

std::string text_of(const std::vector<RecipeChange>& change) {
    std::string text;
    for (const RecipeChange& each : change) {
        text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", each.key, each.value);
    }
    return text;
}

std::string text_of(const Estimate& ratio) {
    const std::string factor = fmt::format("{:.2f}x", ratio.median);
    return ratio.has_interval() ? fmt::format("{} [{:.2f}, {:.2f}]", factor, ratio.low, ratio.high) : factor;
}

std::vector<RecipeChange> with_cache_bytes(std::vector<RecipeChange> change, double bytes) {
    change.push_back({"data.cache_bytes", fmt::format("\"{:.0f}GiB\"", std::ceil(bytes / (1 << 30)))});
    return change;
}

}  // namespace stoker
