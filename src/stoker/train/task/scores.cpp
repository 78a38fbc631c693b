// Scores of tasks whose figures are sums. multilabel_scores.cpp has those that need all outputs at once.
#include "stoker/train/task/scores.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tuple>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

constexpr std::int64_t kTop = 5;

at::Tensor zero_sum(const at::Device& device) {
    return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
}

std::vector<double> read(const at::Tensor& on_device) {
    const at::Tensor host = on_device.to(at::kCPU, at::kDouble);
    const double* first = host.const_data_ptr<double>();
    return {first, first + host.numel()};
}

// The mean of a user's metric. It would also have one of values that were broadcast by mistake.
at::Tensor mean_of(const CustomMetric& metric, const at::Tensor& outputs, const DeviceBatch& batch) {
    const at::Tensor values = metric.function(outputs, batch);
    if (!values.defined() || (values.numel() != 1 && values.numel() != batch.size())) {
        throw InvalidArgument(
            {.where = "metric " + metric.name,
             .expected = fmt::format("one number, or one for each of the {}", pluralize(batch.size(), "sample")),
             .got = values.defined() ? fmt::format("[{}]", fmt::join(values.sizes(), ", ")) : "an undefined tensor",
             .hint = "take the mean over the other sides; (N, 1) and (N) are broadcast to (N, N)"});
    }
    return values.to(at::kDouble).mean();
}

class ClassScores final : public Scores {
  public:
    // `confusion`: the number of classes of the matrix; 0: none.
    ClassScores(const at::Device& device, std::int64_t confusion)
        : loss_(zero_sum(device)),
          correct_(zero_sum(device)),
          top5_(zero_sum(device)),
          confusion_(at::zeros({confusion * confusion}, at::TensorOptions().dtype(at::kLong).device(device))) {}

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const at::Tensor& label = batch.target;
        const at::Tensor predicted = outputs.argmax(1);  // (N)
        classes_ = outputs.size(1);
        const at::Tensor loss = at::cross_entropy_loss(outputs, label);
        const at::Tensor correct = predicted.eq(label).sum();
        at::Tensor top5;
        if (classes_ > kTop) {
            const at::Tensor likeliest = std::get<1>(outputs.topk(kTop, 1));  // (N, 5)
            top5 = likeliest.eq(label.unsqueeze(1)).sum();
        }
        if (confusion_.numel() > 0) {
            const at::Tensor place = label.mul(classes_).add_(predicted);
            confusion_.scatter_add_(0, place, at::ones_like(label));
        }
        loss_.add_(loss, static_cast<double>(label.size(0)));
        correct_.add_(correct);
        if (top5.defined()) {
            top5_.add_(top5);
        }
        samples_ += label.size(0);
    }

    void fetch() override {
        sums_ = read(at::stack({loss_, correct_, top5_}));
        sums_.push_back(static_cast<double>(samples_));
        sums_.push_back(classes_ > kTop ? 1 : 0);
        confusion_ = confusion_.cpu();
    }

    Figures figures(const Group& group) override {
        group.all_reduce(sums_);
        const double samples = sums_[3];
        Figures result{.loss = sums_[0] / samples, .metrics = {{"accuracy", sums_[1] / samples}}};
        if (sums_[4] > 0) {  // a rank without samples does not know the number of classes
            result.metrics.push_back({"top5_accuracy", sums_[2] / samples});
        }
        if (confusion_.numel() > 0) {
            group.all_reduce(confusion_);
            const auto* first = confusion_.const_data_ptr<std::int64_t>();
            result.confusion.assign(first, first + confusion_.numel());
        }
        return result;
    }

  private:
    at::Tensor loss_, correct_, top5_;  // float64 scalars
    at::Tensor confusion_;              // int64 (classes * classes)
    std::int64_t samples_ = 0;
    std::int64_t classes_ = 0;
    std::vector<double> sums_ = {};
};

class SegmentationScores final : public Scores {
  public:
    SegmentationScores(const Task& task, const at::Device& device)
        : classes_(task.outputs),
          options_({.ignore_index = task.loss.ignore_index}),
          loss_(zero_sum(device)),
          confusion_(at::zeros({classes_ * classes_ + 1}, at::TensorOptions().dtype(at::kLong).device(device))) {}

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const at::Tensor& mask = batch.target;  // (N, H, W)
        const at::Tensor loss = element_losses(outputs, mask, options_).sum(at::kDouble);
        at::Tensor place = mask.mul(classes_).add_(outputs.argmax(1));  // by class, then by prediction
        place.masked_fill_(mask.eq(options_.ignore_index), classes_ * classes_);
        const at::Tensor flat = place.flatten();
        const at::Tensor ones = at::ones_like(flat);
        confusion_.scatter_add_(0, flat, ones);
        loss_.add_(loss);
    }

    void fetch() override { sums_ = read(at::cat({loss_.unsqueeze(0), confusion_.to(at::kDouble)})); }

    Figures figures(const Group& group) override {
        group.all_reduce(sums_);
        const auto k = static_cast<std::size_t>(classes_);
        const auto count = [&](std::size_t label, std::size_t predicted) { return sums_[1 + label * k + predicted]; };
        double pixels = 0;
        double correct = 0;
        double overlaps = 0;  // of the classes that occur; an ignored one may be predicted, and does not count
        double occurring = 0;
        for (std::size_t c = 0; c < k; ++c) {
            double in_mask = 0;
            double in_outputs = 0;
            for (std::size_t other = 0; other < k; ++other) {
                in_mask += count(c, other);
                in_outputs += count(other, c);
            }
            pixels += in_mask;
            correct += count(c, c);
            const bool counted = static_cast<std::int64_t>(c) != options_.ignore_index;
            if (const double in_either = in_mask + in_outputs - count(c, c); counted && in_either > 0) {
                overlaps += count(c, c) / in_either;
                ++occurring;
            }
        }
        return {.loss = sums_[0] / pixels,
                .metrics = {{"mean_iou", overlaps / occurring}, {"pixel_accuracy", correct / pixels}}};
    }

  private:
    std::int64_t classes_;
    LossOptions options_;
    at::Tensor loss_;       // float64 scalar
    at::Tensor confusion_;  // int64 (classes * classes + 1); the last one counts ignored pixels
    std::vector<double> sums_ = {};
};

class LanguageScores final : public Scores {
  public:
    LanguageScores(const Task& task, const at::Device& device)
        : options_({.ignore_index = task.loss.ignore_index}),
          loss_(zero_sum(device)),
          correct_(zero_sum(device)),
          tokens_(zero_sum(device)) {}

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const at::Tensor& next = batch.target;  // (N, T)
        const at::Tensor loss = element_losses(outputs, next, options_).sum(at::kDouble);
        const at::Tensor counted = next.ne(options_.ignore_index);
        const at::Tensor correct = outputs.argmax(2).eq(next).logical_and(counted).sum();
        const at::Tensor tokens = counted.sum();
        loss_.add_(loss);
        correct_.add_(correct);
        tokens_.add_(tokens);
    }

    void fetch() override { sums_ = read(at::stack({loss_, correct_, tokens_})); }

    Figures figures(const Group& group) override {
        group.all_reduce(sums_);
        const double loss = sums_[0] / sums_[2];
        return {.loss = loss,
                .metrics = {{"perplexity", std::exp(loss), false}, {"token_accuracy", sums_[1] / sums_[2]}}};
    }

  private:
    LossOptions options_;
    at::Tensor loss_, correct_, tokens_;  // float64 scalars
    std::vector<double> sums_ = {};
};

class CustomScores final : public Scores {
  public:
    CustomScores(const Task& task, const at::Device& device) : task_(task) {
        for (std::size_t i = 0; i <= task.metrics.size(); ++i) {
            on_device_.push_back(zero_sum(device));
        }
    }

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const auto samples = static_cast<double>(batch.size());
        std::vector<at::Tensor> means = {compute_loss(outputs, batch, task_.loss).to(at::kDouble).mean()};
        for (const CustomMetric& metric : task_.metrics) {
            means.push_back(mean_of(metric, outputs, batch));
        }
        for (std::size_t i = 0; i < means.size(); ++i) {
            on_device_[i].add_(means[i], samples);
        }
        samples_ += batch.size();
    }

    void fetch() override {
        sums_ = read(at::stack(on_device_));
        sums_.push_back(static_cast<double>(samples_));
    }

    Figures figures(const Group& group) override {
        group.all_reduce(sums_);
        Figures result{.loss = sums_.front() / sums_.back(), .metrics = metrics_of(task_)};
        for (std::size_t i = 0; i < result.metrics.size(); ++i) {
            result.metrics[i].value = sums_[i + 1] / sums_.back();
        }
        return result;
    }

  private:
    Task task_;
    std::vector<at::Tensor> on_device_ = {};  // float64 scalars: the loss, then the metrics
    std::int64_t samples_ = 0;
    std::vector<double> sums_ = {};
};

}  // namespace

std::unique_ptr<Scores> make_scores(const Task& task, const at::Device& device, bool confusion) {
    switch (task.kind) {
        case TaskKind::multilabel:
            return make_multilabel_scores(task, device);
        case TaskKind::regression:
            return make_regression_scores(task, device);
        case TaskKind::segmentation:
            return std::make_unique<SegmentationScores>(task, device);
        case TaskKind::language:
            return std::make_unique<LanguageScores>(task, device);
        case TaskKind::custom:
            return std::make_unique<CustomScores>(task, device);
        default:
            return std::make_unique<ClassScores>(device, confusion ? task.outputs : 0);
    }
}

std::vector<Metric> metrics_of(const Task& task) {
    constexpr bool kLower = false;
    switch (task.kind) {
        case TaskKind::multilabel:
            return {{"map"}, {"f1_micro"}, {"f1_macro"}};
        case TaskKind::regression:
            return {{"mae", 0, kLower}, {"rmse", 0, kLower}, {"r2"}};
        case TaskKind::segmentation:
            return {{"mean_iou"}, {"pixel_accuracy"}};
        case TaskKind::language:
            return {{"perplexity", 0, kLower}, {"token_accuracy"}};
        case TaskKind::custom: {
            std::vector<Metric> own;
            for (const CustomMetric& metric : task.metrics) {
                own.push_back({metric.name, 0, metric.higher_is_better});
            }
            return own;
        }
        default:
            return task.outputs > kTop ? std::vector<Metric>{{"accuracy"}, {"top5_accuracy"}}
                                       : std::vector<Metric>{{"accuracy"}};
    }
}

void set_directions(const Task& task, std::vector<Metric>& metrics) {
    for (const Metric& known : metrics_of(task)) {
        const auto found = std::ranges::find(metrics, known.name, &Metric::name);
        if (found != metrics.end()) {
            found->higher_is_better = known.higher_is_better;
        }
    }
}

}  // namespace stoker
