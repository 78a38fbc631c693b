// Blocks have graphs of their own, cut at detached inputs as between the stages of a pipeline, so gathers and
// reductions stand in the order of the code, which is the same on all ranks, and not in hooks.
#include "stoker/train/step/fully_sharded_model.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/dist/gradient_reducer.h"
#include "stoker/models/weights.h"
#include "stoker/train/step/missing_gradients.h"

namespace stoker {
namespace {

std::vector<at::Tensor> values_of(const std::vector<NamedTensor>& named) {
    std::vector<at::Tensor> tensors;
    std::ranges::transform(named, std::back_inserter(tensors), &NamedTensor::tensor);
    return tensors;
}

// Those of a sequence in which each parameter belongs to one block; else the whole model as one.
std::vector<ModelBlock> blocks_of(const Model& model) {
    const std::vector<ModelBlock> blocks = model.blocks();
    const bool each_in_one = std::ranges::all_of(model.parameters(), [&](const NamedTensor& entry) {
        return std::ranges::count_if(blocks, [&](const ModelBlock& block) { return block.has(entry.name); }) == 1;
    });
    return blocks.size() > 1 && each_in_one && model.inputs().empty()
               ? blocks
               : std::vector<ModelBlock>{{.name = "model", .tensors = {"*"}}};
}

std::unique_ptr<FlatParameters> flatten(const Group& group, const Model& model, const ModelBlock& block, bool trained) {
    std::vector<at::Tensor> own;
    for (const auto& [name, tensor] : model.parameters()) {
        if (tensor.requires_grad() == trained && block.has(name)) {
            own.push_back(tensor);
        }
    }
    return own.empty() ? nullptr : std::make_unique<FlatParameters>(group, own);
}

std::vector<std::string> without_gradient(const Model& model, const FlatParameters& flat) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.parameters()) {
        const bool own = std::ranges::any_of(flat.parameters(), [&](const auto& p) { return p.is_same(tensor); });
        if (own && !tensor.grad().defined()) {
            names.push_back(name);
        }
    }
    return names;
}

}  // namespace

std::vector<FlatParameters*> FullyShardedModel::Block::parts() const {
    std::vector<FlatParameters*> parts;
    for (FlatParameters* const flat : {trained.get(), frozen.get()}) {
        if (flat != nullptr) {
            parts.push_back(flat);
        }
    }
    return parts;
}

FullyShardedModel::FullyShardedModel(Model& model, const Group& group) : model_(model), group_(group) {
    model.require_autograd();
    require_same_parameters(group, values_of(model.parameters()));
    group.broadcast(values_of(model.state()));
    for (const ModelBlock& block : blocks_of(model)) {
        blocks_.push_back({.block = block,
                           .trained = flatten(group, model, block, /*trained=*/true),
                           .frozen = flatten(group, model, block, /*trained=*/false)});
        for (const FlatParameters* const flat : blocks_.back().parts()) {
            state_.push_back({"shard of " + block.name, flat->shard()});
        }
    }
    state_.insert(state_.end(), model.buffers().begin(), model.buffers().end());
    const auto trains = [](const Block& block) { return block.trained != nullptr; };
    first_trained_ = static_cast<std::size_t>(std::ranges::find_if(blocks_, trains) - blocks_.begin());
}

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
            if (trains) {
                passes_[i] = {.input = input, .output = x};
            }
            at::autocast::clear_cache();  // it would keep a copy of the block's weights
        }
        if (!last || !trains) {
            reshard(i);
        }
    }
    return x;
}

void FullyShardedModel::backward(const at::Tensor& loss, const at::Tensor& gradient) {
    backward_blocks([&](std::size_t block) {
        backward_of(block, loss, gradient);
        const Block& own = blocks_[block];
        if (own.trained != nullptr) {
            if (const auto names = without_gradient(model_, *own.trained); !names.empty()) {
                refuse_missing_gradients(names);
            }
        }
    });
    passes_.clear();
}

void FullyShardedModel::backward_without_samples() {
    backward_blocks(nullptr);
}

// The gradients of a block are on their way while the block before it is computed. `compute` is null without samples.
void FullyShardedModel::backward_blocks(const std::function<void(std::size_t block)>& compute) {
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
        blocks_[block].trained->finish_reduce();
    }
}

// Pieces in the order of the shards, whose parameters are named by their place in `parameters`.
ParameterShards FullyShardedModel::pieces_of(const std::vector<NamedTensor>& parameters, bool trained_only) const {
    std::vector<std::vector<ParameterPiece>> pieces(static_cast<std::size_t>(group_.size()));
    for (const Block& block : blocks_) {
        for (const FlatParameters* const flat : block.parts()) {
            if (trained_only && flat == block.frozen.get()) {
                continue;
            }
            for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
                for (ParameterPiece piece : flat->pieces()[rank]) {
                    const at::Tensor& own = flat->parameters()[piece.parameter];
                    const auto named = std::ranges::find_if(
                        parameters, [&](const NamedTensor& entry) { return entry.tensor.is_same(own); });
                    piece.parameter = static_cast<std::size_t>(named - parameters.begin());
                    pieces[rank].push_back(piece);
                }
            }
        }
    }
    return {group_, values_of(parameters), std::move(pieces)};
}

ParameterShards FullyShardedModel::trained_pieces() const {
    return pieces_of(model_.trainable_parameters(), /*trained_only=*/true);
}

std::vector<at::Tensor> FullyShardedModel::trained() const {
    std::vector<at::Tensor> own;
    for (const Block& block : blocks_) {
        if (block.trained != nullptr) {
            own.insert(own.end(), block.trained->own().begin(), block.trained->own().end());
        }
    }
    return own;
}

bool FullyShardedModel::has_gradients() const {
    return blocks_[first_trained_].trained->has_gradient();  // the last one to get it
}

void FullyShardedModel::zero_grad() {
    for (const Block& block : blocks_) {
        if (block.trained != nullptr) {
            block.trained->zero_grad();
        }
    }
}

std::vector<at::Tensor> FullyShardedModel::own_pieces(const std::vector<NamedTensor>& state) const {
    std::vector<at::Tensor> own;
    std::size_t at = 0;
    for (const Block& block : blocks_) {
        for (const FlatParameters* const flat : block.parts()) {
            std::ranges::move(flat->own_pieces(state[at++].tensor), std::back_inserter(own));
        }
    }
    return own;
}

std::vector<NamedTensor> FullyShardedModel::gather(const std::vector<NamedTensor>& state) const {
    if (state.empty()) {
        return {};
    }
    const std::vector<NamedTensor>& parameters = model_.parameters();
    const std::vector<at::Tensor> wholes = pieces_of(parameters, /*trained_only=*/false).gather(own_pieces(state));
    if (!group_.first()) {
        return state;
    }
    std::vector<NamedTensor> whole;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        whole.push_back({parameters[i].name, wholes[i]});
    }
    const std::size_t shards = state.size() - model_.buffers().size();
    for (std::size_t i = 0; i < model_.buffers().size(); ++i) {
        whole.push_back({model_.buffers()[i].name, state[shards + i].tensor});
    }
    return whole;
}

std::vector<NamedTensor> FullyShardedModel::divide(const std::vector<NamedTensor>& whole,
                                                   const std::string& where) const {
    const c10::NoGradGuard no_grad;
    require_weights(model_, whole, where);
    const auto find = [&](const std::string& name) {
        return std::ranges::find(whole, name, &NamedTensor::name)->tensor;
    };
    std::vector<NamedTensor> state;
    for (const auto& [name, tensor] : state_) {
        state.push_back({name, at::zeros_like(tensor)});
    }
    const std::vector<NamedTensor>& parameters = model_.parameters();
    const std::vector<at::Tensor> own = own_pieces(state);
    const ParameterShards shards = pieces_of(parameters, /*trained_only=*/false);
    for (std::size_t i = 0; i < own.size(); ++i) {
        const ParameterPiece& piece = shards.own()[i];
        const auto& [name, parameter] = parameters[piece.parameter];
        own[i].copy_(ParameterShards::part(ParameterShards::laid_out_like(find(name), parameter), piece));
    }
    const std::size_t first = state.size() - model_.buffers().size();
    for (std::size_t i = 0; i < model_.buffers().size(); ++i) {
        state[first + i].tensor.copy_(find(model_.buffers()[i].name));
    }
    return state;
}

void FullyShardedModel::load(const std::vector<NamedTensor>& whole, const std::string& where) {
    const c10::NoGradGuard no_grad;
    const std::vector<NamedTensor> own = divide(whole, where);
    for (std::size_t i = 0; i < own.size(); ++i) {
        state_[i].tensor.copy_(own[i].tensor);
    }
}

}  // namespace stoker
