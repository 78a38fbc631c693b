// A model whose layers are divided among ranks (train.mesh.tp) or that is divided into stages (train.mesh.pp), and the
// checkpoints of its runs, which have all tensors, whole: they are those of a run whose model is not divided.
#pragma once

#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"

namespace stoker {

// Overwrites the model's state with rank 0's, if a rank has only a part of it, and keeps this rank's slices. A
// stage's ranks then compute with as many threads, since results depend on their number, and whole tensors must stay
// the same on all of them. All ranks of `world` must call it; `mesh` must outlive the model's last pass. Throws
// InvalidArgument for a model that cannot be divided (Model::division).
void divide_model(Model& model, const Group& world, const Mesh& mesh);

// The divided parameter that `entry`, of a model's, an average's or an optimiser's state, is this rank's slice of; null
// for a whole tensor. The names in an optimiser's state end with the parameter's.
const DividedParameter* slice_in(const Model& model, const NamedTensor& entry);

// Keeps those of a checkpoint's tensors that belong to this rank's stage, as its slices. Throws InvalidArgument for one
// of another shape, which may be that of a slice.
void keep_part(std::vector<NamedTensor>& state, const Model& model, const Group& tensor);

// Brings the parts of a model together for a checkpoint.
class StateGatherer {
  public:
    // Both must outlive this object.
    StateGatherer(const Model& model, const Mesh& mesh) : model_(model), mesh_(mesh) {}

    // On rank 0 of all ranks, `state` with all tensors, whole, in host memory; on others unchanged, or with whole
    // tensors. All ranks must call it; the copies of the model other than rank 0's exchange nothing.
    std::vector<NamedTensor> gather(std::vector<NamedTensor> state) const;

  private:
    at::Tensor whole(const at::Tensor& slice, const DividedParameter& parameter) const;

    const Model& model_;
    const Mesh& mesh_;
};

}  // namespace stoker
