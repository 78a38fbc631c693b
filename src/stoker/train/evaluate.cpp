// Loss and hits are summed on the device and read once, at the end.
#include "stoker/train/evaluate.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <array>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/setup.h"

namespace stoker {
namespace {

at::Tensor device_zero(const at::Device& device) {
    return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
}

// Every pass sees the same: the same order, and the same draws of ops that draw.
void rewind(Loader& loader) {
    LoaderState state = loader.state();
    if (state.epoch != 0 || state.batch != 0) {
        state.epoch = 0;
        state.batch = 0;
        state.bad_samples = 0;
        loader.restore(state);
    }
}

std::shared_ptr<Batch> next_batch(Loader& loader, const OnBadSamples& on_bad_samples) {
    try {
        std::shared_ptr<Batch> batch = loader.next();
        if (batch != nullptr && on_bad_samples && !batch->bad_samples().empty()) {
            on_bad_samples(batch->bad_samples());
        }
        return batch;
    } catch (const TooManyBadSamples& error) {
        if (on_bad_samples) {
            on_bad_samples(error.samples());
        }
        throw;
    }
}

class EvaluationMode {
  public:
    explicit EvaluationMode(Model& model) : model_(model) { model_.train(false); }
    EvaluationMode(const EvaluationMode&) = delete;
    EvaluationMode& operator=(const EvaluationMode&) = delete;
    ~EvaluationMode() { model_.train(true); }

  private:
    Model& model_;
};

}  // namespace

std::optional<Evaluation> evaluate(Model& model, Loader& loader, const at::Device& device,
                                   const EvaluateOptions& options, const Group& group) {
    const c10::InferenceMode inference;
    const EvaluationMode mode(model);
    rewind(loader);
    at::Tensor loss = device_zero(device);
    at::Tensor correct = device_zero(device);
    std::int64_t samples = 0;
    std::int64_t bad = 0;
    DeviceCopier copier(device);
    while (const auto batch = next_batch(loader, options.on_bad_samples)) {
        if (batch->size() > 0) {  // of several ranks some may have none of the last batch
            const DeviceBatch on_device = copier.copy(batch);
            const at::Tensor logits = model.forward(on_device.image);  // (N, classes)
            loss.add_(at::cross_entropy_loss(logits, on_device.label), static_cast<double>(batch->size()));
            correct.add_(logits.argmax(1).eq(on_device.label).sum());
        }
        samples += batch->size();
        bad += replaced_items(batch->bad_samples());
        if (options.stop && options.stop()) {
            return std::nullopt;
        }
    }
    std::array sums = {loss.item<double>(), correct.item<double>(), static_cast<double>(samples),
                       static_cast<double>(bad)};
    group.sum(sums);
    return Evaluation{.loss = sums[0] / sums[2],
                      .accuracy = sums[1] / sums[2],
                      .samples = static_cast<std::int64_t>(sums[2]),
                      .bad_samples = static_cast<std::int64_t>(sums[3])};
}

Evaluation evaluate_weights(const Recipe& given, const std::vector<NamedTensor>& weights,
                            const std::vector<std::string>& classes) {
    return with_stoker_errors([&] {
        Recipe recipe = given;
        if (!recipe.model.classes && !classes.empty()) {  // the data may have fewer
            recipe.model.classes = static_cast<std::int64_t>(classes.size());
        }
        const DataSets data = open_val_data(recipe.data);
        if (!classes.empty()) {
            require_classes(classes, "the checkpoint", *data.val);
        }
        const at::Device device = prepare_device(recipe);
        const auto loader = make_val_loader(recipe, data, device, uses_channels_last(recipe, nullptr));
        const auto model = make_trained_model(recipe, weights, loader->image_shape(),
                                              class_count(recipe, data.train ? *data.train : *data.val), device);
        return evaluate(*model, *loader, device).value();
    });
}

}  // namespace stoker
