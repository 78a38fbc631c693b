// A model whose layers are divided among ranks (train.mesh.tp), and the checkpoints of its runs, which have whole
// tensors: they are those of a run whose model is not divided.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"

namespace stoker {

// Overwrites the model's state with rank 0's and keeps this rank's slices. A copy's ranks then compute with as many
// threads, since results depend on their number, and whole tensors must stay the same on all of them. Does nothing
// without mesh.tensor. All ranks of `world` must call it; `mesh` must outlive the model's last pass. Throws
// InvalidArgument for a model that cannot be divided (Model::division).
void divide_model(Model& model, const Group& world, const Mesh& mesh);

// The parameter of which `entry`, of a model's, an average's or an optimiser's state, has this rank's slice; null for a
// whole tensor. The names in an optimiser's state end with the parameter's.
const DividedParameter* slice_in(const Model& model, const NamedTensor& entry);

// Elements of `tensors`, the model's, in the whole model: of divided ones each of `ranks` has a slice.
std::int64_t whole_elements(const Model& model, const std::vector<NamedTensor>& tensors, std::int64_t ranks);

// Whole tensors of a checkpoint become this rank's slices. Throws InvalidArgument for one of another shape, which may
// be that of a slice.
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
