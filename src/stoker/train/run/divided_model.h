// A model whose layers are divided among ranks (train.mesh.tp) or that is cut into stages (train.mesh.pp), and the
// checkpoints of its runs, which have all tensors, whole: they are those of a run whose model is not divided.
#pragma once

#include <string>
#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"
#include "stoker/train/step/fully_sharded_model.h"

namespace stoker {

// Overwrites the model's state with rank 0's, where a rank has only a part of it, and keeps this rank's slices. A
// stage's ranks then compute with as many threads, since results depend on their number, and whole tensors must stay
// the same on all of them. All ranks of `world` must call it; `mesh` must outlive the model's last pass. Throws
// InvalidArgument for a model that cannot be divided (Model::division).
void divide_model(Model& model, const Group& world, const Mesh& mesh);

// The parameter of which `entry`, of a model's, an average's or an optimiser's state, has this rank's slice; null for a
// whole tensor. The names in an optimiser's state end with the parameter's.
const DividedParameter* slice_in(const Model& model, const NamedTensor& entry);

// Of a checkpoint's tensors those of this rank's stage are kept, and become its slices. Throws InvalidArgument for one
// of another shape, which may be that of a slice.
void keep_part(std::vector<NamedTensor>& state, const Model& model, const Group& tensor);

// This rank's part of a model's tensors, which is all of them, slices and stages, or shards.
class PartOfModel {
  public:
    // All must outlive this object. `full`: the model whose parameters are sharded; null: they are not.
    PartOfModel(Model& model, const Mesh& mesh, FullyShardedModel* full) : model_(model), mesh_(mesh), full_(full) {}

    std::vector<NamedTensor> state() const { return full_ != nullptr ? full_->state() : model_.state(); }
    // On rank 0 of all ranks, tensors like `state()` as those of the whole model, in host memory; on others as they
    // were given, or whole. All ranks must call it; the other copies of the model exchange nothing.
    std::vector<NamedTensor> gather(const std::vector<NamedTensor>& tensors) const {
        return full_ != nullptr ? full_->gather(tensors) : gather_slices(tensors);
    }
    // The same of an optimiser's state, which is not sharded.
    std::vector<NamedTensor> gather_slices(std::vector<NamedTensor> state) const;
    // Tensors like `state()`, for a file that all ranks write; `first`: this rank writes those that all have.
    StateParts parts(const std::vector<NamedTensor>& tensors, bool first) const;

    // Tensors like `state()` of those that keep_part has kept of a checkpoint's, which may be none. Throws
    // InvalidArgument, with `where` as the origin, unless these are the model's.
    std::vector<NamedTensor> divide(std::vector<NamedTensor> saved, const std::string& where) const;
    void load(const std::vector<NamedTensor>& saved, const std::string& where) const;

  private:
    at::Tensor whole(const at::Tensor& slice, const DividedParameter& parameter) const;

    Model& model_;
    const Mesh& mesh_;
    FullyShardedModel* full_;
};

}  // namespace stoker
