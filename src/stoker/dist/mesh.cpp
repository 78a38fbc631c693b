// If every rank has a whole model, all ranks are the data group, and nothing is connected twice.
#include "stoker/dist/mesh.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

std::string text_of(const MeshRecipe& shape) {
    return fmt::format("dp = {}{}, tp = {}", shape.dp ? fmt::to_string(*shape.dp) : "auto",
                       shape.pp > 1 ? fmt::format(", pp = {}", shape.pp) : "", shape.tp);
}

// A rank's place in the mesh.
struct Place {
    std::int64_t copy = 0;
    std::int64_t stage = 0;
    std::int64_t slice = 0;
};

Place place_of(int rank, const MeshRecipe& shape) {
    return {.copy = rank / shape.copy(), .stage = rank / shape.tp % shape.pp, .slice = rank % shape.tp};
}

void require_same_mesh(const Group& world, const MeshRecipe& shape) {
    world.barrier();  // one may have taken long to open its data
    const std::vector<std::string> all = world.all_gather(text_of(shape));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw InvalidArgument({.where = "train.mesh",
                                   .expected = all[0] + ", as on rank 0",
                                   .got = fmt::format("{} on rank {}", all[rank], rank),
                                   .hint = "start all ranks with the same recipe"});
        }
    }
}

}  // namespace

void require_mesh(int ranks, const MeshRecipe& shape, const std::string& ranks_option) {
    const std::int64_t dp = shape.dp.value_or(ranks / shape.copy());
    if (dp >= 1 && dp * shape.copy() == ranks) {
        return;
    }
    const std::int64_t wanted = shape.dp ? dp * shape.copy() : shape.copy();
    throw InvalidArgument({.where = "train.mesh",
                           .expected = fmt::format("{}{} for {}", shape.dp ? "" : "a multiple of ",
                                                   pluralize(wanted, "process"), text_of(shape)),
                           .got = fmt::to_string(ranks),
                           .hint = fmt::format("`{} {}` gives as many, or change the keys", ranks_option, wanted)});
}

Mesh make_mesh(const std::shared_ptr<Group>& world, const MeshRecipe& shape) {
    require_same_mesh(*world, shape);
    require_mesh(world->size(), shape);
    if (shape.copy() == 1) {
        return {.data = world, .figures = world};
    }
    const Place own = place_of(world->rank(), shape);
    const auto ranks_with = [&](bool same_copy, bool same_stage, bool same_slice) {
        std::vector<int> ranks;
        for (int rank = 0; rank < world->size(); ++rank) {
            const Place place = place_of(rank, shape);
            if ((!same_copy || place.copy == own.copy) && (!same_stage || place.stage == own.stage) &&
                (!same_slice || place.slice == own.slice)) {
                ranks.push_back(rank);
            }
        }
        return world->subgroup(ranks);
    };
    Mesh mesh{.data = ranks_with(false, true, true),
              .tensor = ranks_with(true, true, false),
              .pipeline = ranks_with(true, false, true)};
    mesh.figures = mesh.pipeline->alone() ? mesh.data
                   : mesh.data->alone()   ? mesh.pipeline
                                          : ranks_with(false, false, true);
    return mesh;
}

}  // namespace stoker
