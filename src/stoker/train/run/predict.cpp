// The host waits for the device once a batch, to read the outputs.
#include "stoker/train/run/predict.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/codecs/encode.h"
#include "stoker/train/run/evaluate.h"

namespace stoker {
namespace {

constexpr std::int64_t kMostMaskClasses = 256;  // of a pixel in a byte

// Values (N, K) float32 on the host.
at::Tensor values_of(const at::Tensor& outputs, TaskKind task) {
    at::Tensor values = outputs.to(at::kFloat);
    if (task == TaskKind::classification) {
        values = values.softmax(1);
    } else if (task == TaskKind::multilabel) {
        values = values.sigmoid();
    }
    return values.reshape({values.size(0), -1}).to(at::kCPU).contiguous();
}

// The likeliest class of each pixel (height, width) of outputs (K, H, W). Class by class, since the enlarged outputs of
// all classes may not fit into memory.
at::Tensor enlarged_classes(const at::Tensor& outputs, at::IntArrayRef size) {
    at::Tensor best;
    at::Tensor classes;
    for (std::int64_t k = 0; k < outputs.size(0); ++k) {
        const at::Tensor own = at::upsample_bilinear2d(outputs[k].unsqueeze(0).unsqueeze(0), size, false)[0][0];
        if (k == 0) {
            best = own;
            classes = at::zeros_like(own, at::kByte);
            continue;
        }
        const at::Tensor better = own.gt(best);
        best = at::where(better, own, best);
        classes.masked_fill_(better, k);
    }
    return classes;
}

// A sample's mask for outputs (K, H, W).
std::vector<std::byte> mask_of(const at::Tensor& outputs, at::IntArrayRef size, const Task& task) {
    const at::Tensor logits = outputs.to(at::kFloat);
    const at::Tensor classes = (size.empty() || size == logits.sizes().slice(1) ? logits.argmax(0).to(at::kByte)
                                                                                : enlarged_classes(logits, size))
                                   .to(at::kCPU)
                                   .contiguous();
    std::vector<std::uint8_t> pixels(classes.const_data_ptr<std::uint8_t>(),
                                     classes.const_data_ptr<std::uint8_t>() + classes.numel());
    for (std::uint8_t& pixel : pixels) {
        pixel = pixel < task.mask_values.size() ? static_cast<std::uint8_t>(task.mask_values[pixel]) : pixel;
    }
    const auto height = static_cast<int>(classes.size(0));
    const auto width = static_cast<int>(classes.size(1));
    return encode_png({pixels.data(), height, width, 1, width});
}

std::vector<Prediction> predictions(const Batch& batch, std::span<const SampledIndex> draws, const Dataset& dataset,
                                    const at::Tensor& outputs, const Task& task) {
    const bool masks = task.kind == TaskKind::segmentation;
    const at::Tensor values = masks ? at::Tensor() : values_of(outputs, task.kind);
    // The outputs of a mask are checked, since its classes are always finite.
    const at::Tensor& checked = masks ? outputs : values;
    const at::Tensor finite = checked.isfinite().reshape({checked.size(0), -1}).all(1).to(at::kCPU);  // (N)
    const bool sized = std::ranges::find(batch.fields(), kImageSizeField, &FieldSpec::name) != batch.fields().end();
    const std::span<const std::int32_t> sizes =
        sized ? batch.field(kImageSizeField).as<std::int32_t>() : std::span<std::int32_t>();
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
        Prediction& one = all.emplace_back(Prediction{.key = dataset.key(draw.index)});
        if (!finite.const_data_ptr<bool>()[i]) {
            one.error = "expected finite outputs of the model, got nan";
        } else if (masks) {
            const std::span own = sized ? sizes.subspan(static_cast<std::size_t>(2 * i), 2) : sizes;
            one.mask = mask_of(outputs[i], std::vector<std::int64_t>(own.begin(), own.end()), task);
        } else {
            const float* own = values.const_data_ptr<float>() + i * values.size(1);
            one.values.assign(own, own + values.size(1));
        }
    }
    return all;
}

std::string to_cbor(const std::vector<Prediction>& predictions) {
    nlohmann::json all = nlohmann::json::array();
    for (const Prediction& one : predictions) {
        const auto* const mask = reinterpret_cast<const std::uint8_t*>(one.mask.data());
        all.push_back({{"key", one.key},
                       {"values", one.values},
                       {"mask", nlohmann::json::binary({mask, mask + one.mask.size()})},
                       {"error", one.error},
                       {"other_size", one.other_size}});
    }
    std::string bytes;
    nlohmann::json::to_cbor(all, bytes);
    return bytes;
}

void add_from_cbor(const std::string& bytes, std::vector<Prediction>& predictions) {
    for (const nlohmann::json& one : nlohmann::json::from_cbor(bytes)) {
        const auto mask = std::as_bytes(std::span<const std::uint8_t>(one.at("mask").get_binary()));
        predictions.push_back({.key = one.at("key").get<std::string>(),
                               .values = one.at("values").get<std::vector<float>>(),
                               .mask = {mask.begin(), mask.end()},
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
    if (task.kind == TaskKind::segmentation && task.input.size() == 4) {
        throw Unsupported({.where = "predict",
                           .expected = "masks of images",
                           .got = "masks of volumes",
                           .hint = "`stoker export` writes the model for Python"});
    }
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
                own = predictions(*batch, batch->sampled(), loader.dataset(), outputs, task);
            }
            std::vector<Prediction> whole = gather_predictions(std::move(own), group);
            if (group.first()) {
                on_batch(whole);
            }
        }
    });
}

}  // namespace stoker
