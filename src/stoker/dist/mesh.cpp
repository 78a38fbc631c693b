// Without tensor parallelism all ranks are the data group, and nothing is connected twice.
#include "stoker/dist/mesh.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

std::string text_of(const MeshRecipe& shape) {
    return fmt::format("dp = {}, tp = {}", shape.dp ? fmt::to_string(*shape.dp) : "auto", shape.tp);
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
    const std::int64_t dp = shape.dp.value_or(ranks / shape.tp);
    if (dp >= 1 && dp * shape.tp == ranks) {
        return;
    }
    const std::int64_t wanted = shape.dp ? dp * shape.tp : shape.tp;
    throw InvalidArgument({.where = "train.mesh",
                           .expected = fmt::format("{}{} for {}", shape.dp ? "" : "a multiple of ",
                                                   pluralize(wanted, "process"), text_of(shape)),
                           .got = fmt::to_string(ranks),
                           .hint = fmt::format("`{} {}` gives as many, or change the keys", ranks_option, wanted)});
}

Mesh make_mesh(const std::shared_ptr<Group>& world, const MeshRecipe& shape) {
    require_same_mesh(*world, shape);
    require_mesh(world->size(), shape);
    if (shape.tp == 1) {
        return {.data = world};
    }
    const int tp = static_cast<int>(shape.tp);
    const int copy = world->rank() / tp;
    std::vector<int> same_copy;
    std::vector<int> same_part;
    for (int rank = 0; rank < world->size(); ++rank) {
        if (rank / tp == copy) {
            same_copy.push_back(rank);
        }
        if (rank % tp == world->rank() % tp) {
            same_part.push_back(rank);
        }
    }
    return {.data = world->subgroup(same_part), .tensor = world->subgroup(same_copy)};
}

}  // namespace stoker
