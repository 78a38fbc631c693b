// How the ranks of a run share the work: copies of the model share the batches (data parallelism), the stages of a copy
// its blocks (pipeline parallelism), and the ranks of a stage its layers (tensor parallelism).
#pragma once

#include <memory>
#include <string>

#include "stoker/dist/group.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// With dp = 2, pp = 2 and tp = 3 the first copy has the stages {0, 1, 2} and {3, 4, 5}, the second {6, 7, 8} and
// {9, 10, 11}: a stage's ranks are neighbours, since they exchange most, then a copy's.
struct Mesh {
    // Ranks with the same part of the model and different samples.
    std::shared_ptr<Group> data = std::make_shared<Group>();
    // Ranks with the same samples and different slices of one stage, in the order of the slices.
    std::shared_ptr<Group> tensor = std::make_shared<Group>();
    // Ranks with the same samples and different stages of one copy, in their order.
    std::shared_ptr<Group> pipeline = std::make_shared<Group>();
    // All copies and stages: ranks whose figures of samples add up to those of the batch. Only a copy's last stage has
    // any figures.
    std::shared_ptr<Group> figures = std::make_shared<Group>();

    // Whether each rank has only a part of the model.
    bool divides_model() const { return !tensor->alone() || !pipeline->alone(); }
};

// Throws InvalidArgument if `ranks` are not dp * pp * tp. `ranks_option`, for the message, sets their number.
void require_mesh(int ranks, const MeshRecipe& shape,
                  const std::string& ranks_option = "stoker launch --nproc-per-node");

// All ranks of `world` must call it, and wait for each other. `world` must outlive the mesh. Throws InvalidArgument, on
// all ranks, if they are not dp * pp * tp, or have other values of them.
Mesh make_mesh(const std::shared_ptr<Group>& world, const MeshRecipe& shape);

}  // namespace stoker
