// A batch's probabilities are fetched at once; nothing else waits for the device.
#include "stoker/train/predict.h"

#include <ATen/ops/softmax.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/pipeline/transform.h"

namespace stoker {
namespace {

std::vector<Prediction> predictions(const Batch& batch, std::span<const Draw> draws, const Source& source,
                                    const at::Tensor& probabilities) {
    const std::int64_t classes = probabilities.size(1);
    const auto* values = probabilities.const_data_ptr<float>();
    std::vector<Prediction> all;
    for (const Draw& draw : draws) {
        const std::vector<float> own(values, values + classes);
        const bool finite = std::ranges::all_of(own, [](float value) { return std::isfinite(value); });
        all.push_back({.key = source.key(draw.index),
                       .probabilities = finite ? own : std::vector<float>(),
                       .error = finite ? "" : "expected finite outputs of the model, got nan"});
        values += classes;
    }
    std::set<std::int64_t> told;
    for (const BadSample& bad : batch.bad_samples()) {
        Prediction& own = all[static_cast<std::size_t>(bad.item)];
        if (told.insert(bad.item).second) {  // the first is the one that was asked for
            own.probabilities.clear();
            own.error = bad.reason;
        }
    }
    return all;
}

}  // namespace

std::vector<Prediction> unreadable(const Source& source, const DataRecipe& recipe) {
    const Transform transform(recipe.val_ops, transform_options(recipe));
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    std::vector<Prediction> all;
    for (std::int64_t index = 0; index < source.size(); ++index) {
        Sample sample;
        try {
            source.read(index, sample);
            transform.augment(transform.prepare(sample, scratch, clock), {}, scratch);
            return {};
        } catch (const DataError& error) {
            all.push_back({.key = source.key(index),
                           .probabilities = {},
                           .error = "expected " + error.info().expected + ", got " + error.info().got});
        } catch (const Unsupported& error) {
            all.push_back({.key = source.key(index), .probabilities = {}, .error = error.what()});
        }
    }
    return all;
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
            on_batch(predictions(*batch, batch->draws(), loader.source(), probabilities));
        }
    });
}

}  // namespace stoker
