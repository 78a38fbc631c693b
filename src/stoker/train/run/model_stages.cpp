#include "stoker/train/run/model_stages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/dist/stage_partition.h"
#include "stoker/train/step/forward_snapshot.h"

namespace stoker {
namespace {

std::vector<std::size_t> runs_of(const Model& model) {
    const std::vector<NamedTensor> parameters = model.trainable_parameters();
    std::vector<bool> trained;
    for (const ModelBlock& block : model.blocks()) {
        trained.push_back(
            std::ranges::any_of(parameters, [&](const NamedTensor& entry) { return block.has(entry.name); }));
    }
    return trained_runs(trained);
}

// The name of the tensor that an entry of a model's or an optimiser's state belongs to: "exp_avg.fc1.weight".
std::string tensor_of(const std::string& entry, const std::vector<std::string>& names) {
    const bool own = std::ranges::find(names, entry) != names.end();
    return own ? entry : entry.substr(entry.find('.') + 1);
}

// The names, types and shapes that a rank must know of tensors to receive them.
std::string describe(const std::vector<NamedTensor>& state) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [name, tensor] : state) {
        all.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
    }
    return json_text(all);
}

std::vector<NamedTensor> empty_like_described(const std::string& text) {
    std::vector<NamedTensor> state;
    for (const nlohmann::json& entry : parse_own_json<nlohmann::json>(text)) {
        const auto type = static_cast<at::ScalarType>(entry.at(1).get<int>());
        state.push_back({entry.at(0), at::empty(entry.at(2).get<std::vector<std::int64_t>>(), type)});
    }
    return state;
}

}  // namespace

std::string StagePartition::blocks_text(std::size_t stage) const {
    const std::string& first = blocks[firsts[stage]];
    const std::string& last = blocks[end(stage) - 1];
    return first == last ? first : first + " to " + last;
}

std::string partition_text(const StagePartition& partition) {
    const std::vector<double> seconds = stage_costs(partition.seconds, partition.firsts);
    std::string text;
    for (std::size_t stage = 0; stage < partition.firsts.size(); ++stage) {
        text +=
            fmt::format("{}{} ({:.3g} ms)", stage > 0 ? " | " : "", partition.blocks_text(stage), 1e3 * seconds[stage]);
    }
    return text;
}

void require_stages(const Model& model, std::int64_t stages) {
    const auto possible = static_cast<std::int64_t>(runs_of(model).size());
    if (model.blocks().empty()) {
        throw InvalidArgument({.where = "train.mesh.pp",
                               .expected = "1, except for Stoker's own models, which are sequences of blocks",
                               .got = fmt::to_string(stages),
                               .hint = "processes can share the batches of any model: set it to 1"});
    }
    if (stages > possible) {
        throw InvalidArgument(
            {.where = "train.mesh.pp",
             .expected = fmt::format("at most {}, the blocks of the model with trained parameters", possible),
             .got = fmt::to_string(stages)});
    }
}

std::vector<double> measure_blocks(Model& model, const Task& task, std::int64_t samples, const Precision& precision,
                                   const at::Device& device) {
    constexpr int kRounds = 4;  // the fastest counts; the first one warms up
    const std::vector<ModelBlock> blocks = model.blocks();
    std::vector<double> fastest(blocks.size(), std::numeric_limits<double>::infinity());
    ForwardSnapshot before(model, device);
    before.save();
    const at::Tensor input = random_batch(task, samples, device).input;
    for (int round = 0; round < kRounds; ++round) {
        at::Tensor x = input;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            x = x.detach().requires_grad_(i > 0);
            wait_for_device(x);
            const auto begin = std::chrono::steady_clock::now();
            at::Tensor output;
            {
                const Autocast autocast(precision, device);
                output = blocks[i].forward(x);
            }
            if (output.requires_grad()) {
                output.backward(at::ones_like(output));
            }
            wait_for_device(output);
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
            fastest[i] = std::min(fastest[i], spent.count());
            x = output;
        }
    }
    for (const auto& [name, parameter] : model.parameters()) {
        parameter.mutable_grad().reset();
    }
    before.restore();
    return fastest;
}

StagePartition partition_model(const Model& model, std::vector<double> seconds, std::size_t stages) {
    StagePartition partition{.blocks = {}, .seconds = std::move(seconds), .firsts = {}};
    for (const ModelBlock& block : model.blocks()) {
        partition.blocks.push_back(block.name);
    }
    partition.firsts = partition_runs(partition.seconds, runs_of(model), stages);
    return partition;
}

StageShapes stage_shapes(Model& model, const StagePartition& partition, std::size_t stage, Task task,
                         const Shape& input, const Precision& precision, const at::Device& device) {
    const c10::NoGradGuard no_grad;
    const Autocast autocast(precision, device);
    const bool training = model.training();
    model.train(false);
    task.input = input;
    at::Tensor x = zero_batch(task, 1, device).input;
    const auto boundary = [&] {
        return StageBoundary{.shape = {x.sizes().begin() + 1, x.sizes().end()},
                             .type = x.scalar_type(),
                             .format = x.dim() == 4 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous,
                             .device = x.device()};
    };
    StageShapes shapes{.input = boundary()};
    const std::vector<ModelBlock> blocks = model.blocks();
    for (std::size_t i = 0; i < partition.end(stage); ++i) {
        if (i == partition.firsts[stage]) {
            shapes.input = boundary();
        }
        x = blocks[i].forward(x);
    }
    shapes.output = boundary();
    model.train(training);
    return shapes;
}

void keep_stage(std::vector<NamedTensor>& state, const Model& model) {
    const std::vector<std::string> whole = model.whole_state_names();
    const std::vector<NamedTensor> own = model.state();
    std::erase_if(state, [&](const NamedTensor& entry) {
        const std::string name = tensor_of(entry.name, whole);
        const bool known = std::ranges::find(whole, name) != whole.end();  // others are refused later
        return known && std::ranges::find(own, name, &NamedTensor::name) == own.end();
    });
}

std::vector<NamedTensor> gather_stages(std::vector<NamedTensor> state, const Model& model, const Group& stages) {
    const c10::NoGradGuard no_grad;
    const std::vector<std::string> described = stages.all_gather(describe(state));
    if (!stages.first()) {
        for (const auto& [name, tensor] : state) {
            stages.send(tensor.detach().to(at::kCPU).contiguous(), stages.rank(), /*to=*/0);
        }
        return state;
    }
    for (int stage = 1; stage < stages.size(); ++stage) {
        for (NamedTensor& entry : empty_like_described(described[static_cast<std::size_t>(stage)])) {
            stages.send(entry.tensor, stage, /*to=*/0);
            state.push_back(std::move(entry));
        }
    }
    const std::vector<std::string> names = model.whole_state_names();
    std::ranges::stable_sort(state, {}, [&](const NamedTensor& entry) {
        return std::ranges::find(names, tensor_of(entry.name, names)) - names.begin();
    });
    return state;
}

}  // namespace stoker
