// The host waits for the device once a batch, to read the probabilities.
#include "stoker/train/run/predict.h"

#include <ATen/ops/softmax.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

std::vector<Prediction> predictions(const Batch& batch, std::span<const SampledIndex> draws, const Dataset& dataset,
                                    const at::Tensor& probabilities) {
    const std::int64_t classes = probabilities.size(1);
    const auto* values = probabilities.const_data_ptr<float>();
    std::map<std::int64_t, Prediction> bad;  // by position in the batch
    for (const BadSample& sample : batch.bad_samples()) {
        bad.emplace(sample.item, prediction_of(sample));
    }
    std::vector<Prediction> all;
    for (const SampledIndex& draw : draws) {
        const std::vector<float> own(values, values + classes);
        values += classes;
        if (const auto found = bad.find(std::ssize(all)); found != bad.end()) {
            all.push_back(found->second);
            continue;
        }
        const bool finite = std::ranges::all_of(own, [](float value) { return std::isfinite(value); });
        all.push_back({.key = dataset.key(draw.index),
                       .probabilities = finite ? own : std::vector<float>(),
                       .error = finite ? "" : "expected finite outputs of the model, got nan"});
    }
    return all;
}

}  // namespace

Prediction prediction_of(const BadSample& sample) {
    return {.key = sample.key, .probabilities = {}, .error = sample.reason, .other_size = sample.other_size};
}

void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch) {
    with_stoker_errors([&] {
        const c10::InferenceMode inference;
        model.train(false);
        DeviceCopier copier(device);
        while (const auto batch = loader.next()) {
            const at::Tensor logits = model.forward(copier.copy(batch).image);  // (N, classes)
            const at::Tensor probabilities = logits.to(at::kFloat).softmax(1).to(at::kCPU).contiguous();
            on_batch(predictions(*batch, batch->sampled(), loader.dataset(), probabilities));
        }
    });
}

}  // namespace stoker
