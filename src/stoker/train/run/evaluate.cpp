// Loss and correct predictions are summed on the device and read once, at the end.
#include "stoker/train/run/evaluate.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <chrono>
#include <tuple>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/formats/relabelled.h"
#include "stoker/train/run/run_setup.h"

namespace stoker {
namespace {

// Every pass has the same order and the same draws of random ops.
void rewind(Loader& loader) {
    LoaderState state = loader.state();
    if (state.epoch != 0 || state.batch != 0) {
        state.epoch = 0;
        state.batch = 0;
        state.bad_samples = 0;
        loader.restore(state);
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

constexpr std::int64_t kTop = 5;

// Sums over all batches, on the device.
struct Sums {
    explicit Sums(const at::Device& device)
        : loss(at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device))),
          correct(loss.clone()),
          top5(loss.clone()) {}

    void add(const at::Tensor& logits, const at::Tensor& label, bool with_confusion) {
        const at::Tensor predicted = logits.argmax(1);  // (N)
        classes = logits.size(1);
        loss.add_(at::cross_entropy_loss(logits, label), static_cast<double>(label.size(0)));
        correct.add_(predicted.eq(label).sum());
        if (classes > kTop) {
            const at::Tensor likeliest = std::get<1>(logits.topk(kTop, 1));  // (N, 5)
            top5.add_(likeliest.eq(label.unsqueeze(1)).sum());
        }
        if (with_confusion) {
            if (!confusion.defined()) {
                confusion = at::zeros({classes * classes}, label.options());
            }
            confusion.scatter_add_(0, label.mul(classes).add_(predicted), at::ones_like(label));
        }
    }

    at::Tensor loss, correct, top5;  // float64 scalars
    at::Tensor confusion = {};       // int64 (classes * classes)
    std::int64_t classes = 0;
};

}  // namespace

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

std::optional<Evaluation> evaluate(Model& model, Loader& loader, const at::Device& device,
                                   const EvaluateOptions& options, const Group& group) {
    const c10::InferenceMode inference;
    const EvaluationMode mode(model);
    rewind(loader);
    Sums counts(device);
    std::int64_t samples = 0;
    std::int64_t bad = 0;
    DeviceCopier copier(device);
    EvaluationProgress progress{.of = loader.batch_sampler().options().size};
    const auto begin = std::chrono::steady_clock::now();
    Account account;
    const StageTimes workers = loader.stats().workers;
    const auto next = [&] {
        const PhaseSpan span(account, Phase::wait);
        return next_batch(loader, options.on_bad_samples);
    };
    while (const auto batch = next()) {
        if (batch->size() > 0) {  // a rank may have no samples of the last batch
            const PhaseSpan copy(account, Phase::copy);
            const DeviceBatch on_device = copier.copy(batch);
            const PhaseSpan forward(account, Phase::forward);
            counts.add(model.forward(on_device.image), on_device.label, options.confusion);
        }
        samples += batch->size();
        bad += replaced_items(batch->bad_samples());
        if (options.on_batch) {
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
            progress.samples += loader.batch_sampler().samples(batch->number());
            progress.images_per_second = static_cast<double>(progress.samples) / spent.count();
            options.on_batch(progress);
        }
        if (options.stop && options.stop()) {
            return std::nullopt;
        }
    }
    account.enter(Phase::sync);
    std::array sums = {counts.loss.item<double>(),   counts.correct.item<double>(), counts.top5.item<double>(),
                       static_cast<double>(samples), static_cast<double>(bad),      counts.classes > kTop ? 1.0 : 0.0};
    account.enter(Phase::unmeasured);
    const StepRecord times = account.cut();
    group.all_reduce(sums);
    Evaluation result{.loss = sums[0] / sums[3],
                      .accuracy = sums[1] / sums[3],
                      .samples = static_cast<std::int64_t>(sums[3]),
                      .bad_samples = static_cast<std::int64_t>(sums[4]),
                      .account = times,
                      .workers = loader.stats().workers};
    result.workers -= workers;
    result.workers.limit_blocked(loader.workers() * std::chrono::duration<double>(times.total()));
    if (sums[5] > 0) {  // a rank without samples does not know the number of classes
        result.top5 = sums[2] / sums[3];
    }
    if (counts.confusion.defined()) {
        const at::Tensor matrix = counts.confusion.cpu();
        const auto* first = matrix.const_data_ptr<std::int64_t>();
        result.confusion.assign(first, first + matrix.numel());
    }
    return result;
}

Evaluation evaluate_weights(const Recipe& given, const ModelFile& weights, const std::vector<std::string>& classes,
                            const OnEvaluation& on_batch, const std::function<void(const Dataset&)>& on_data) {
    return with_stoker_errors([&] {
        Recipe recipe = given;
        if (!recipe.model.classes && !classes.empty()) {  // the data may have fewer
            recipe.model.classes = static_cast<std::int64_t>(classes.size());
        }
        RecipeData data = open_val_data(recipe.data);
        if (on_data) {
            on_data(*data.val);
        }
        if (!classes.empty()) {
            data.val = match_classes(classes, "the checkpoint", data.val);
        }
        const at::Device device = prepare_device(recipe);
        const auto loader =
            make_val_loader(recipe, data, device, uses_channels_last(recipe, nullptr), channels_of(weights.metadata));
        const std::int64_t count = class_count(recipe, data.train ? *data.train : *data.val);
        const auto model = make_trained_model(recipe, weights, loader->image_shape(), count, device);
        constexpr std::int64_t kMostClasses = 1000;  // 8 MB
        return evaluate(*model, *loader, device, {.on_batch = on_batch, .confusion = count <= kMostClasses}).value();
    });
}

}  // namespace stoker
