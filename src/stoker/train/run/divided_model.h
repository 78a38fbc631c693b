// A model whose layers are divided among ranks (train.mesh.tp), and the checkpoints of its runs, which have whole
// tensors: they are those of a run whose model is not divided.
#pragma once

#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"

namespace stoker {

// Overwrites the model's state with rank 0's and keeps this rank's slices. Does nothing without mesh.tensor. All ranks
// of `world` must call it; `mesh` must outlive the model's last pass. Throws InvalidArgument for a model that cannot be
// divided (Model::division).
void divide_model(Model& model, const Group& world, const Mesh& mesh);

// The parameter of which `entry`, of a model's, an average's or an optimiser's state, has this rank's slice; null for a
// whole tensor. The names in an optimiser's state end with the parameter's.
const DividedParameter* slice_in(const Model& model, const NamedTensor& entry);

// Whole tensors of a checkpoint become this rank's slices. One of an unexpected shape is left as it is, for
// Model::load and the others to refuse.
void keep_slices(std::vector<NamedTensor>& state, const Model& model, const Group& tensor);

// Brings slices together for a checkpoint.
class SliceGatherer {
  public:
    // Both must outlive this object.
    SliceGatherer(const Model& model, const Mesh& mesh) : model_(model), mesh_(mesh) {}

    // On rank 0 of all ranks, `state` with whole tensors in host memory; on others as it was given. All ranks must call
    // it; the copies of the model beside rank 0's exchange nothing.
    std::vector<NamedTensor> gather(std::vector<NamedTensor> state) const;

  private:
    at::Tensor whole(const at::Tensor& slice, const DividedParameter& parameter) const;

    const Model& model_;
    const Mesh& mesh_;
};

}  // namespace stoker
