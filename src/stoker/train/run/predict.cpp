// The host waits for the device once a batch, to read the outputs.
#include "stoker/train/run/predict.h"

#include <ATen/ops/softmax.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/run/evaluate.h"

namespace stoker {
namespace {

constexpr std::int64_t kMostMaskClasses = 256;  // of a pixel in a byte

// Values (N, K) float32, or masks (N, H, W) uint8, on the host.
at::Tensor answers(const at::Tensor& outputs, TaskKind task) {
    at::Tensor answer = outputs.to(at::kFloat);
    switch (task) {
        case TaskKind::classification:
            answer = answer.softmax(1);
            break;
        case TaskKind::multilabel:
            answer = answer.sigmoid();
            break;
        case TaskKind::segmentation:
            answer = answer.argmax(1).to(at::kByte);
            break;
        default:
            answer = answer.reshape({answer.size(0), -1});
            break;
    }
    return answer.to(at::kCPU).contiguous();
}

// Sample i of the answers.
Prediction prediction_at(const at::Tensor& answers, std::int64_t i, bool finite) {
    const at::Tensor own = answers[i];
    Prediction prediction;
    if (!finite) {
        prediction.error = "expected finite outputs of the model, got nan";
    } else if (own.scalar_type() == at::kByte) {
        prediction.mask.assign(own.const_data_ptr<std::uint8_t>(), own.const_data_ptr<std::uint8_t>() + own.numel());
        prediction.height = static_cast<int>(own.size(0));
        prediction.width = static_cast<int>(own.size(1));
    } else {
        prediction.values.assign(own.const_data_ptr<float>(), own.const_data_ptr<float>() + own.numel());
    }
    return prediction;
}

std::vector<Prediction> predictions(const Batch& batch, std::span<const SampledIndex> draws, const Dataset& dataset,
                                    const at::Tensor& outputs, TaskKind task) {
    const at::Tensor all_answers = answers(outputs, task);
    // For a mask the outputs are checked, since its classes are always finite.
    const at::Tensor checked = task == TaskKind::segmentation ? outputs : all_answers;
    const at::Tensor finite = checked.isfinite().reshape({checked.size(0), -1}).all(1).to(at::kCPU);  // (N)
    std::map<std::int64_t, Prediction> bad;  // by position in the batch
    for (const BadSample& sample : batch.bad_samples()) {
        bad.emplace(sample.item, prediction_of(sample));
    }
    std::vector<Prediction> all;
    for (const SampledIndex& draw : draws) {
        const std::int64_t i = std::ssize(all);
        if (const auto found = bad.find(i); found != bad.end()) {
            all.push_back(found->second);
            continue;
        }
        all.push_back(prediction_at(all_answers, i, finite.const_data_ptr<bool>()[i]));
        all.back().key = dataset.key(draw.index);
    }
    return all;
}

std::string to_cbor(const std::vector<Prediction>& predictions) {
    nlohmann::json all = nlohmann::json::array();
    for (const Prediction& one : predictions) {
        all.push_back({{"key", one.key},
                       {"values", one.values},
                       {"mask", nlohmann::json::binary(one.mask)},
                       {"size", {one.height, one.width}},
                       {"error", one.error},
                       {"other_size", one.other_size}});
    }
    std::string bytes;
    nlohmann::json::to_cbor(all, bytes);
    return bytes;
}

void add_from_cbor(const std::string& bytes, std::vector<Prediction>& predictions) {
    for (const nlohmann::json& one : nlohmann::json::from_cbor(bytes)) {
        predictions.push_back({.key = one.at("key").get<std::string>(),
                               .values = one.at("values").get<std::vector<float>>(),
                               .mask = one.at("mask").get_binary(),
                               .height = one.at("size").at(0).get<int>(),
                               .width = one.at("size").at(1).get<int>(),
                               .error = one.at("error").get<std::string>(),
                               .other_size = one.at("other_size").get<bool>()});
    }
}

// Those of all ranks, in order, on rank 0.
std::vector<Prediction> gather_predictions(std::vector<Prediction> own, const Group& group) {
    if (group.alone()) {
        return own;
    }
    std::vector<Prediction> all;
    for (const std::string& bytes : group.all_gather(to_cbor(own))) {
        if (group.first()) {
            add_from_cbor(bytes, all);
        }
    }
    return all;
}

}  // namespace

Prediction prediction_of(const BadSample& sample) {
    return {.key = sample.key, .error = sample.reason, .other_size = sample.other_size};
}

void require_predictable(const Task& task) {
    const bool sample_wise = task.kind != TaskKind::language && task.kind != TaskKind::custom;
    const bool fits = task.kind != TaskKind::segmentation || task.outputs <= kMostMaskClasses;
    if (!sample_wise || !fits) {
        throw Unsupported({.where = "predict",
                           .expected = fits ? "a task with one prediction for a sample"
                                            : fmt::format("masks of at most {} classes", kMostMaskClasses),
                           .got = fits ? std::string(task_name(task.kind)) : fmt::to_string(task.outputs),
                           .hint = "`stoker export` writes the model for Python"});
    }
}

void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch, const Task& task,
             const Precision& precision, const Group& group) {
    require_predictable(task);
    with_stoker_errors([&] {
        const c10::InferenceMode inference;
        model.train(false);
        DeviceCopier copier(device, {.more = task.inputs});  // the target is not looked at
        while (const auto batch = loader.next()) {
            std::vector<Prediction> own;
            if (batch->size() > 0) {  // a rank may have no samples of the last batch
                DeviceBatch on_device = copier.copy(batch);
                cast_doubles(on_device);
                const at::Tensor outputs = evaluation_outputs(model, on_device, precision, device);
                own = predictions(*batch, batch->sampled(), loader.dataset(), outputs, task.kind);
            }
            std::vector<Prediction> whole = gather_predictions(std::move(own), group);
            if (group.first()) {
                on_batch(whole);
            }
        }
    });
}

}  // namespace stoker
