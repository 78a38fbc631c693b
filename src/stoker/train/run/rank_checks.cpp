// Recipes are compared key by key, as text; data by size and by a hash of keys.
#include "stoker/train/run/rank_checks.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/models/imported_model.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

// Keys that may differ between hosts. Weights may, because rank 0's are sent to all.
constexpr const char* kHostKeys[] = {
    "name",          "device",           "data.train",     "data.val",      "data.mix",     "data.workers",
    "data.cache",    "data.cache_bytes", "data.cache_dir", "data.cache_as", "data.memory",  "data.prefetch",
    "train.threads", "data.pin_memory",  "data.decode_on", "model.weights", "model.script", "model.export",
};

std::string identity(const Loader& loader) {
    const LoaderState state = loader.state();
    // The order of buckets depends on the samples that a host can read.
    return fmt::format("{} samples (hash of their keys: {:016x}; {})", state.size,
                       state.identity != 0 ? state.identity : state.keys, state.order);
}

std::string shown(const std::string& value) {
    return value.empty() ? "none" : value;
}

// `mine` must have the same set of keys on all ranks.
void require_same(const Group& group, const RecipeKeys& mine, const char* hint) {
    const std::vector<std::string> all = group.all_gather(json_text(nlohmann::json(mine)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == all[0]) {
            continue;
        }
        const RecipeKeys first = parse_own_json<nlohmann::json>(all[0]);
        const RecipeKeys other = parse_own_json<nlohmann::json>(all[rank]);
        const DifferingKey differs = differing_keys({first, other}).at(0);
        throw InvalidArgument({.where = differs.key,
                               .expected = shown(differs.values[0]) + ", as on rank 0",
                               .got = fmt::format("{} on rank {}", shown(differs.values[1]), rank),
                               .hint = hint});
    }
}

}  // namespace

void require_same_recipe(const Group& group, const Recipe& recipe, const Loader& train, const Loader* val) {
    if (group.alone()) {
        return;
    }
    RecipeKeys keys = recipe_keys(recipe_to_toml(recipe), "the recipe");
    for (const char* key : kHostKeys) {
        keys[key] = "";
    }
    if (const char* key = imported_model_key(recipe.model)) {
        keys[key] = "a file of hash " + imported_model_hash(recipe.model);
    }
    keys["data.train"] = identity(train);
    keys["data.val"] = val != nullptr ? identity(*val) : "";
    group.barrier();
    require_same(group, keys, "start all ranks with the same recipe and data");
}

void require_same_data(const Group& group, const Loader& loader, const ModelFile& weights) {
    if (group.alone()) {
        return;
    }
    std::uint64_t hash = 0;
    for (const auto& [name, tensor] : weights.tensors) {
        const at::Tensor bytes = tensor.contiguous();
        hash =
            hash_bytes({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()}, hash_text(name, hash));
    }
    group.barrier();
    require_same(group, {{"data", identity(loader)}, {"weights", fmt::format("hash {:016x}", hash)}},
                 "start all ranks with the same data and checkpoint");
}

void require_same_start(const Group& group, const std::string& resume, bool has_folder) {
    if (!group.alone()) {
        require_same(group, {{"resume", resume}, {"out", has_folder ? "a run folder" : ""}},
                     "start all ranks with the same arguments");
    }
}

}  // namespace stoker
