// The shards of a model: how they are made, named and brought together. fully_sharded_passes.cpp has the passes.
#include "stoker/train/step/fully_sharded_model.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/dist/gradient_reducer.h"
#include "stoker/models/weights.h"

namespace stoker {
namespace {

std::vector<at::Tensor> values_of(const std::vector<NamedTensor>& named) {
    std::vector<at::Tensor> tensors;
    std::ranges::transform(named, std::back_inserter(tensors), &NamedTensor::tensor);
    return tensors;
}

// The whole model as one block if it is not a sequence, or if blocks may share (tied) weights.
std::vector<ModelBlock> blocks_of(const Model& model) {
    std::vector<ModelBlock> blocks = model.blocks();
    if (blocks.size() <= 1 || !model.inputs().empty() || !model.tied_names().empty()) {
        return {{.name = "model", .tensors = {"*"}}};
    }
    for (const NamedTensor& entry : model.parameters()) {
        const auto count = std::ranges::count_if(blocks, [&](const auto& block) { return block.has(entry.name); });
        if (count != 1) {
            throw InvalidArgument({.where = "train.shard",
                                   .expected = "each parameter in one of the model's blocks (Model::blocks)",
                                   .got = fmt::format("{} in {}", entry.name, count)});
        }
    }
    return blocks;
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
            const bool frozen = flat == blocks_.back().frozen.get();
            state_.push_back({(frozen ? "frozen shard of " : "shard of ") + block.name, flat->shard()});
        }
    }
    state_.insert(state_.end(), model.buffers().begin(), model.buffers().end());
    const auto trains = [](const Block& block) { return block.trained != nullptr; };
    first_trained_ = static_cast<std::size_t>(std::ranges::find_if(blocks_, trains) - blocks_.begin());
    pieces_of(model.parameters(), /*trained_only=*/false);  // refuses parameters that a checkpoint cannot have
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

std::span<const NamedTensor> FullyShardedModel::buffers_in(const std::vector<NamedTensor>& state) const {
    return std::span(state).last(model_.buffers().size());
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
    std::ranges::copy(buffers_in(state), std::back_inserter(whole));
    return whole;
}

StateParts FullyShardedModel::parts(const std::vector<NamedTensor>& state) const {
    StateParts parts;
    if (state.empty()) {
        return parts;
    }
    const std::vector<NamedTensor>& parameters = model_.parameters();
    std::vector<std::size_t> places;
    for (const auto& [name, tensor] : parameters) {
        places.push_back(parts.add(name, tensor));
    }
    parts.add_pieces(pieces_of(parameters, /*trained_only=*/false).in_row_major(own_pieces(state)), places);
    const std::span<const NamedTensor> buffers = buffers_in(state);
    parts.add_whole({buffers.begin(), buffers.end()}, group_.first());
    return parts;
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
    for (const auto& [name, tensor] : buffers_in(state)) {
        tensor.copy_(find(name));
    }
    return state;
}

void FullyShardedModel::load(const std::vector<NamedTensor>& whole, const std::string& where) {
    const c10::NoGradGuard no_grad;
    abandon();
    const std::vector<NamedTensor> own = divide(whole, where);
    for (std::size_t i = 0; i < own.size(); ++i) {
        state_[i].tensor.copy_(own[i].tensor);
    }
}

}  // namespace stoker
