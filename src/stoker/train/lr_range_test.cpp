#include "stoker/train/lr_range_test.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "stoker/base/statistics.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/mixup_cutmix.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/task/target_check.h"

namespace stoker {
namespace {

constexpr double kMemory = 0.9;    // of the running loss
constexpr double kDivergence = 4;  // times the best running loss

// Without what needs validation data, and with batches for all steps.
Recipe test_recipe(Recipe recipe, std::int64_t steps) {
    recipe.train.epochs = std::max(recipe.train.epochs, steps);  // an epoch has at least one batch
    recipe.train.keep_best.clear();
    recipe.train.early_stop = 0;
    recipe.data.cache = "none";
    return recipe;
}

RecipeData training_data(const Recipe& recipe) {
    RecipeData data = open_train_data(recipe.data);
    data.val = nullptr;  // a share of the training data
    return data;
}

// Whether a loss has left the range of those before: by their mean, weighted by kMemory to the power of their age.
class Divergence {
  public:
    bool add(double loss) {
        sum_ = kMemory * sum_ + loss;
        weight_ = kMemory * weight_ + 1;
        const double mean = sum_ / weight_;
        constexpr double kEnough = 5;  // of weight; with less, one lucky batch decides
        best_ = weight_ >= kEnough ? std::min(best_, mean) : best_;
        return !std::isfinite(mean) || mean > kDivergence * best_;
    }

  private:
    double sum_ = 0;
    double weight_ = 0;
    double best_ = std::numeric_limits<double>::infinity();
};

// The points on each side that a smoothed loss is the mean of.
std::ptrdiff_t reach_of(std::size_t points) {
    return std::max(static_cast<std::ptrdiff_t>(points) / 30, std::ptrdiff_t{2});
}

// How far a smoothed loss is off: the median distance of losses from it, as a standard deviation, over the root of the
// number of losses in the mean.
double error_of(std::span<const RatePoint> points, std::ptrdiff_t reach) {
    std::vector<double> distances;
    std::ranges::transform(points, std::back_inserter(distances),
                           [](const RatePoint& point) { return std::abs(point.loss - point.smoothed); });
    constexpr double kNormal = 1.4826;
    return kNormal * median(distances) / std::sqrt(2.0 * static_cast<double>(reach) + 1);
}

class RangeTraining {
  public:
    explicit RangeTraining(const Recipe& recipe)
        : plan_(plan_training(recipe, training_data(recipe), nullptr, /*resumes=*/false, std::make_shared<Group>())),
          optimizer_(plan_.model->trainable_parameters(), recipe.optimizer),
          step_(make_step(
              {*plan_.model, optimizer_, account_, plan_.device, step_options(recipe, plan_.task, plan_.device)})),
          copier_(plan_.device, plan_.task.fields),
          mixup_cutmix_({.mixup = recipe.train.mixup,
                         .cutmix = recipe.train.cutmix,
                         .classes = plan_.task.outputs,
                         .seed = recipe.seed}) {}

    // The loss of one step.
    double step(double lr) {
        std::shared_ptr<Batch> batch;
        while (batch == nullptr) {  // null marks the end of an epoch
            batch = plan_.train_loader->next();
        }
        require_targets(plan_.task, *batch, *plan_.data.train);
        DeviceBatch on_device = copier_.copy(batch);
        prepare(plan_.task, on_device);
        if (mixup_cutmix_.any()) {
            mix(on_device, mixup_cutmix_, batch->epoch(), batch->number());
        }
        step_->run(on_device, lr);
        return step_->take_losses().front();
    }

  private:
    TrainPlan plan_;
    Account account_;
    Optimizer optimizer_;
    std::unique_ptr<Step> step_;
    DeviceCopier copier_;
    MixupCutmixOptions mixup_cutmix_;
};

}  // namespace

void smooth(std::vector<RatePoint>& points) {
    const auto count = std::ssize(points);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        const std::ptrdiff_t reach = std::min({reach_of(points.size()), i, count - 1 - i});
        double sum = 0;
        for (std::ptrdiff_t j = i - reach; j <= i + reach; ++j) {
            sum += points[static_cast<std::size_t>(j)].loss;
        }
        points[static_cast<std::size_t>(i)].smoothed = sum / (2.0 * static_cast<double>(reach) + 1);
    }
}

// Beyond its minimum the loss may fall again, from a height that training never comes back from: that is not progress.
std::optional<double> suggest_rate(std::span<const RatePoint> points, bool diverged) {
    const std::ptrdiff_t reach = reach_of(points.size());
    if (std::ssize(points) <= 4 * reach) {
        return std::nullopt;
    }
    // The first and the last are means of few losses.
    const auto middle =
        points.subspan(static_cast<std::size_t>(reach), points.size() - static_cast<std::size_t>(2 * reach));
    const auto lowest = std::ranges::min_element(middle, {}, &RatePoint::smoothed);
    const std::span<const RatePoint> falling(middle.begin(), lowest + 1);
    const double fall = std::ranges::max_element(falling, {}, &RatePoint::smoothed)->smoothed - lowest->smoothed;
    constexpr double kClear = 6;  // times the error of a smoothed loss
    if (std::ssize(falling) <= 2 * reach || fall <= kClear * error_of(falling, reach)) {
        return std::nullopt;
    }
    double slope = 0;
    double steepest = falling.front().lr;
    for (std::ptrdiff_t i = reach; i + reach < std::ssize(falling); ++i) {  // the rates are evenly spaced
        const double own = falling[static_cast<std::size_t>(i + reach)].smoothed -
                           falling[static_cast<std::size_t>(i - reach)].smoothed;
        if (own < slope) {
            slope = own;
            steepest = falling[static_cast<std::size_t>(i)].lr;
        }
    }
    constexpr double kBelowDivergence = 10;
    return diverged ? std::min(steepest, points.back().lr / kBelowDivergence) : steepest;
}

RangeTest lr_range_test(const Recipe& recipe, const RangeTestOptions& options) {
    return with_stoker_errors([&] {
        RangeTraining training(test_recipe(recipe, options.steps));
        RangeTest test;
        Divergence divergence;
        for (std::int64_t i = 0; i < options.steps && !test.diverged; ++i) {
            const double share =
                static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(options.steps - 1, 1));
            const double lr = options.from * std::pow(options.to / options.from, share);
            const double loss = training.step(lr);
            test.diverged = divergence.add(loss);
            if (std::isfinite(loss)) {
                test.points.push_back({.lr = lr, .loss = loss});
            }
            if (options.on_step && options.on_step(i + 1)) {
                break;
            }
        }
        smooth(test.points);
        test.suggestion = suggest_rate(test.points, test.diverged);
        return test;
    });
}

}  // namespace stoker
