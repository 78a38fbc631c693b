// How the ranks of a run share the work: some of them hold one copy of the model together (tensor parallelism), and the
// copies share the batches (data parallelism).
#pragma once

#include <memory>
#include <string>

#include "stoker/dist/group.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// With dp = 2 and tp = 3 the ranks are {0, 1, 2} and {3, 4, 5}: a copy's ranks are neighbours, since they exchange
// most, and are on one host where its ranks are a multiple of tp.
struct Mesh {
    // Ranks with the same part of the model and different samples; in the order of their slices.
    std::shared_ptr<Group> data = std::make_shared<Group>();
    // Ranks with the same samples and different parts of one copy.
    std::shared_ptr<Group> tensor = std::make_shared<Group>();
};

// Throws InvalidArgument where `ranks` are not dp * tp. `ranks_option`, for the message, sets their number.
void require_mesh(int ranks, const MeshRecipe& shape,
                  const std::string& ranks_option = "stoker launch --nproc-per-node");

// All ranks of `world` must call it, and wait for each other. `world` must outlive the mesh. Throws InvalidArgument, on
// all ranks, where they are not dp * tp, or have other values of them.
Mesh make_mesh(const std::shared_ptr<Group>& world, const MeshRecipe& shape);

}  // namespace stoker
