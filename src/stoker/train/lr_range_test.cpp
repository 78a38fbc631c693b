#include "stoker/train/lr_range_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

constexpr double kMemory = 0.9;    // of the smoothed loss
constexpr double kDivergence = 4;  // times the best smoothed loss

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

// The mean of all losses, weighted by kMemory to the power of their age.
class Smoother {
  public:
    double add(double loss) {
        sum_ = kMemory * sum_ + loss;
        weight_ = kMemory * weight_ + 1;
        return sum_ / weight_;
    }

  private:
    double sum_ = 0;
    double weight_ = 0;
};

class RangeTraining {
  public:
    explicit RangeTraining(const Recipe& recipe)
        : plan_(plan_training(recipe, training_data(recipe), nullptr, /*resumes=*/false, std::make_shared<Group>())),
          optimizer_(plan_.model->trainable_parameters(), recipe.optimizer),
          step_(*plan_.model, optimizer_, account_, plan_.device, step_options(recipe, plan_.task, plan_.device)),
          copier_(plan_.device, plan_.task.fields),
          mixup_cutmix_({.mixup = recipe.train.mixup,
                         .cutmix = recipe.train.cutmix,
                         .classes = plan_.task.outputs,
                         .seed = recipe.seed}) {}

    // The loss of one step.
    double step(double lr) {
        std::shared_ptr<Batch> batch;
        while (batch == nullptr) {  // null marks the end of an epoch
            batch = next_batch(*plan_.train_loader, nullptr);
        }
        require_targets(plan_.task, *batch, *plan_.data.train);
        DeviceBatch on_device = copier_.copy(batch);
        prepare(plan_.task, on_device);
        if (mixup_cutmix_.any()) {
            mix(on_device, mixup_cutmix_, batch->epoch(), batch->number());
        }
        step_.run(on_device, lr);
        return step_.take_losses().front();
    }

  private:
    TrainPlan plan_;
    Account account_;
    Optimizer optimizer_;
    Step step_;
    DeviceCopier copier_;
    MixupCutmixOptions mixup_cutmix_;
};

}  // namespace

std::optional<double> suggest_rate(std::span<const RatePoint> points, bool diverged) {
    constexpr std::size_t kReach = 2;  // points on both sides of a slope
    std::optional<double> steepest;
    double slope = 0;
    for (std::size_t i = kReach; i + kReach < points.size(); ++i) {
        const double own = points[i + kReach].smoothed - points[i - kReach].smoothed;  // the rates are evenly spaced
        if (own < slope) {
            slope = own;
            steepest = points[i].lr;
        }
    }
    constexpr double kBelowDivergence = 10;
    return steepest && diverged ? std::min(*steepest, points.back().lr / kBelowDivergence) : steepest;
}

RangeTest lr_range_test(const Recipe& recipe, const RangeTestOptions& options) {
    return with_stoker_errors([&] {
        RangeTraining training(test_recipe(recipe, options.steps));
        RangeTest test;
        Smoother smoother;
        double best = std::numeric_limits<double>::infinity();
        for (std::int64_t i = 0; i < options.steps && !test.diverged; ++i) {
            const double share =
                static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(options.steps - 1, 1));
            const double lr = options.from * std::pow(options.to / options.from, share);
            const double loss = training.step(lr);
            const double smoothed = smoother.add(loss);
            test.diverged = !std::isfinite(smoothed) || smoothed > kDivergence * best;
            if (std::isfinite(smoothed)) {
                test.points.push_back({.lr = lr, .loss = loss, .smoothed = smoothed});
                best = std::min(best, smoothed);
            }
            if (options.on_step && options.on_step(i + 1)) {
                break;
            }
        }
        test.suggestion = suggest_rate(test.points, test.diverged);
        return test;
    });
}

}  // namespace stoker
