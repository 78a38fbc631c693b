// A model whose parameters are divided among the ranks (ZeRO stage 3, torch's fully_shard): a block's parameters are
// gathered for its forward pass and again for its backward pass, and its gradients are reduce-scattered after it.
// Rajbhandari et al., "ZeRO", 2020; Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
// 2023.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/dist/flat_parameters.h"
#include "stoker/models/model.h"
#include "stoker/records/account.h"
#include "stoker/train/step/state_parts.h"

namespace stoker {

class FullyShardedModel {
  public:
    // Takes the state of the first rank of `group`, and frees the parameters of `model`: the passes below are its only
    // passes from then on. A model that is not a sequence of blocks (Model::blocks) is one block. Both must outlive
    // this object. Throws what GradientReducer throws, InvalidArgument for parameters of several types or in no one
    // block, and Unsupported for a model that does not use autograd.
    FullyShardedModel(Model& model, const Group& group);

    // The passes of a micro-batch; all ranks make them together, in the same order. `outputs` is for evaluation too.
    at::Tensor outputs(const DeviceBatch& batch);
    at::Tensor loss(const DeviceBatch& batch, const LossOptions& options);
    // Adds the gradients of `loss`, the last one or made of the last outputs, to those of the shards, averaged over the
    // ranks. Throws InvalidArgument where a trained parameter has none.
    void backward(const at::Tensor& loss, const at::Tensor& gradient);
    // The passes of a rank without samples while others have some.
    void forward_without_samples();
    void backward_without_samples();
    // Waits for other ranks in a training pass belong to the phase `communication` of this account from now on.
    void measure(Account& account) { account_ = &account; }
    // The type in which gradients are sent and added up; empty: their own.
    void reduce_in(std::optional<at::ScalarType> type) { reduced_type_ = type; }

    // For an optimiser: which elements of the trained parameters (Model::trainable_parameters) each rank has, and this
    // rank's, with their gradients.
    ParameterShards trained_pieces() const;
    std::vector<at::Tensor> trained() const;
    bool has_gradients() const;
    void zero_grad();

    // The model's state as this rank has it: the shards of the parameters, and whole buffers. They share its memory.
    const std::vector<NamedTensor>& state() const { return state_; }
    // `state`, tensors like `state()`, as those of a whole model: on rank 0, in host memory; on others unchanged.
    // All ranks must call it.
    std::vector<NamedTensor> gather(const std::vector<NamedTensor>& state) const;
    // The same for a file, without gathering what each rank can write. All ranks must call it.
    StateParts parts(const std::vector<NamedTensor>& state) const;
    // The opposite: tensors like `state()` whose shards have this rank's elements. Throws InvalidArgument, with `where`
    // as the origin, unless `whole` has the model's tensors.
    std::vector<NamedTensor> divide(const std::vector<NamedTensor>& whole, const std::string& where) const;
    void load(const std::vector<NamedTensor>& whole, const std::string& where);

  private:
    struct Block {
        ModelBlock block;  // without `forward` if the model is not a sequence
        std::unique_ptr<FlatParameters> trained = nullptr;
        std::unique_ptr<FlatParameters> frozen = nullptr;

        std::vector<FlatParameters*> parts() const;
    };
    // The tensors of a block's forward pass that the backward pass needs.
    struct Pass {
        at::Tensor input;   // after the first trained block: a leaf of autograd, so that each block has its own graph
        at::Tensor output;  // from the first trained block on, without the last
    };

    class Abandonment;

    bool is_sequence() const { return blocks_.size() > 1; }
    // `batch` is null if this rank lacks samples. `whole`: the pass of a model that is one block.
    at::Tensor forward(const DeviceBatch* batch, const std::function<at::Tensor()>& whole);
    void backward_blocks(const std::function<void(std::size_t block)>& compute);
    void backward_of(std::size_t block, const at::Tensor& loss, const at::Tensor& gradient);
    void start_unshard(std::size_t block) const;
    void unshard(std::size_t block) const;
    void reshard(std::size_t block) const;
    void finish_reduce(std::size_t block) const;
    void wait_in_account(std::optional<PhaseSpan>& span) const;
    void abandon() noexcept;
    std::span<const NamedTensor> buffers_in(const std::vector<NamedTensor>& state) const;
    // This rank's pieces of tensors like `state()`, in the order of `pieces_of`.
    std::vector<at::Tensor> own_pieces(const std::vector<NamedTensor>& state) const;
    ParameterShards pieces_of(const std::vector<NamedTensor>& parameters, bool trained_only) const;

    Model& model_;
    const Group& group_;
    std::vector<Block> blocks_;
    std::size_t first_trained_ = 0;  // the backward pass ends at this block
    std::vector<Pass> passes_;       // of the last forward pass
    std::vector<NamedTensor> state_;
    std::optional<at::ScalarType> reduced_type_;
    Account* account_ = nullptr;
};

}  // namespace stoker
