// Each block has a separate graph, cut at detached inputs as between the stages of a pipeline, so gathers and
// reductions follow the order of the code, which is the same on all ranks, and not that of hooks.
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>

#include "stoker/train/step/divided_gradients.h"
#include "stoker/train/step/fully_sharded_model.h"

namespace stoker {
namespace {

void require_gradients(const Model& model, const FlatParameters& flat) {
    const auto lacks = [](const at::Tensor& tensor) { return !tensor.grad().defined(); };
    if (std::ranges::none_of(flat.parameters(), lacks)) {
        return;
    }
    std::vector<NamedTensor> own;
    std::ranges::copy_if(model.parameters(), std::back_inserter(own), [&](const NamedTensor& entry) {
        return std::ranges::any_of(flat.parameters(), [&](const auto& p) { return p.is_same(entry.tensor); });
    });
    refuse_missing_gradients(own);
}

}  // namespace

// Abandons the passes of a model when an error leaves the scope.
class FullyShardedModel::Abandonment {
  public:
    explicit Abandonment(FullyShardedModel& model) : model_(&model) {}
    Abandonment(const Abandonment&) = delete;
    Abandonment& operator=(const Abandonment&) = delete;
    ~Abandonment() {
        if (model_ != nullptr) {
            model_->abandon();
        }
    }
    void cancel() { model_ = nullptr; }

  private:
    FullyShardedModel* model_;
};

at::Tensor FullyShardedModel::outputs(const DeviceBatch& batch) {
    return forward(&batch, [&] { return model_.outputs(batch); });
}

at::Tensor FullyShardedModel::loss(const DeviceBatch& batch, const LossOptions& options) {
    return is_sequence() ? compute_loss(outputs(batch), batch, options)
                         : forward(&batch, [&] { return model_.loss(batch, options); });
}

void FullyShardedModel::forward_without_samples() {
    forward(nullptr, nullptr);
}

// The last block stays gathered for the backward pass, which begins with it.
at::Tensor FullyShardedModel::forward(const DeviceBatch* batch, const std::function<at::Tensor()>& whole) {
    Abandonment on_error(*this);
    const bool trains = c10::GradMode::is_enabled();
    passes_.assign(trains ? blocks_.size() : 0, Pass());
    at::Tensor x = batch != nullptr ? batch->input : at::Tensor();
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const bool last = i + 1 == blocks_.size();
        unshard(i);
        if (!last) {
            start_unshard(i + 1);
        }
        if (batch != nullptr) {
            const at::Tensor input = trains && i > 0 ? x.detach().requires_grad_(x.requires_grad()) : x;
            x = is_sequence() ? blocks_[i].block.forward(input) : whole();
            if (trains && i > first_trained_) {
                passes_[i].input = input;
            }
            if (trains && i >= first_trained_ && !last) {
                passes_[i].output = x;
            }
            at::autocast::clear_cache();  // it would keep a copy of the block's weights
        }
        if (!last || !trains) {
            reshard(i);
        }
    }
    on_error.cancel();
    return x;
}

void FullyShardedModel::backward(const at::Tensor& loss, const at::Tensor& gradient) {
    backward_blocks([&](std::size_t block) {
        backward_of(block, loss, gradient);
        if (blocks_[block].trained != nullptr) {
            require_gradients(model_, *blocks_[block].trained);
        }
    });
    passes_.clear();
}

void FullyShardedModel::backward_without_samples() {
    backward_blocks(nullptr);
}

// The gradients of a block are on their way while the block before it is computed. `compute` is null without samples.
void FullyShardedModel::backward_blocks(const std::function<void(std::size_t block)>& compute) {
    Abandonment on_error(*this);
    for (std::size_t i = blocks_.size(); i-- > first_trained_;) {
        unshard(i);
        if (i > first_trained_) {
            start_unshard(i - 1);
        }
        if (compute) {
            compute(i);
        }
        reshard(i);
        if (i + 1 < blocks_.size()) {
            finish_reduce(i + 1);
        }
        if (blocks_[i].trained != nullptr) {
            blocks_[i].trained->start_reduce(/*zeros=*/compute == nullptr, reduced_type_);
        }
    }
    finish_reduce(first_trained_);
    on_error.cancel();
}

// The block's graph is freed with its output.
void FullyShardedModel::backward_of(std::size_t block, const at::Tensor& loss, const at::Tensor& gradient) {
    if (block + 1 == blocks_.size()) {
        model_.backward(loss, gradient);
        return;
    }
    const at::Tensor of_output = passes_[block + 1].input.grad();
    passes_[block + 1] = {};
    if (of_output.defined()) {  // else the loss does not depend on the block
        passes_[block].output.backward(of_output);
    }
}

void FullyShardedModel::start_unshard(std::size_t block) const {
    for (FlatParameters* const flat : blocks_[block].parts()) {
        flat->start_unshard();
    }
}

void FullyShardedModel::unshard(std::size_t block) const {
    start_unshard(block);
    std::optional<PhaseSpan> waiting;
    wait_in_account(waiting);
    for (FlatParameters* const flat : blocks_[block].parts()) {
        flat->unshard();
    }
}

void FullyShardedModel::reshard(std::size_t block) const {
    for (FlatParameters* const flat : blocks_[block].parts()) {
        flat->reshard();
    }
}

void FullyShardedModel::finish_reduce(std::size_t block) const {
    if (blocks_[block].trained != nullptr) {
        std::optional<PhaseSpan> waiting;
        wait_in_account(waiting);
        blocks_[block].trained->finish_reduce();
    }
}

// An evaluation is not divided into phases.
void FullyShardedModel::wait_in_account(std::optional<PhaseSpan>& span) const {
    if (account_ != nullptr && c10::GradMode::is_enabled()) {
        span.emplace(*account_, Phase::communication);
    }
}

// After an error in a pass: no block stays gathered, and no gradient stays for a later step.
void FullyShardedModel::abandon() noexcept {
    passes_.clear();
    for (const Block& block : blocks_) {
        for (FlatParameters* const flat : block.parts()) {
            flat->abandon();
        }
    }
}

}  // namespace stoker
