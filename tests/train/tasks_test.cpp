// Whole trainings of other tasks than classification: the same losses and weights as a loop in plain LibTorch, the same
// figures with several micro-batches, after a resume, and refusals before the first step.
#include <ATen/core/Reduction.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <tuple>

#include "stoker/bridge/tensor.h"
#include "stoker/models/init.h"
#include "stoker/train/run/run_setup.h"
#include "train/support.h"
#include "train/task_data.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::kVocabulary;
using testing::small_recipe;
using testing::TaskDataset;
using testing::TempDir;

constexpr std::int64_t kTaskSteps = 21;

Recipe recipe_of(const std::string& task) {
    Recipe recipe = small_recipe();
    recipe.task = task;
    recipe.data.train_ops = {};
    recipe.optimizer = {.name = "sgd", .lr = 0.05, .momentum = 0.9};
    return recipe;
}

RecipeData data_of(FieldKind kind) {
    return {.train = std::make_shared<TaskDataset>(100, kind), .val = std::make_shared<TaskDataset>(40, kind, 2)};
}

// The error of the constructor of a Trainer; empty if none.
std::string refusal_of(const Recipe& recipe, FieldKind kind) {
    try {
        const Trainer trainer(recipe, data_of(kind));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Predicts the next token from the one before.
class Bigrams final : public Model {
  public:
    Bigrams() {
        at::Generator generator = make_generator(4);
        table_ = parameter("table", at::randn({kVocabulary, kVocabulary}, generator));
    }
    at::Tensor forward(const at::Tensor& input) override { return at::embedding(table_, input); }  // (N, T, K)

  private:
    at::Tensor table_;
};

// Two classes for each pixel from its value.
class PixelModel final : public Model {
  public:
    PixelModel() {
        at::Generator generator = make_generator(4);
        weight_ = parameter("weight", at::randn({2, 1, 1, 1}, generator));
        bias_ = parameter("bias", at::zeros({2}));
    }
    at::Tensor forward(const at::Tensor& input) override { return at::conv2d(input, weight_, bias_); }

  private:
    at::Tensor weight_;
    at::Tensor bias_;
};

std::unique_ptr<Model> model_of(const Recipe& recipe) {
    if (recipe.task == "segmentation") {
        return std::make_unique<PixelModel>();
    }
    if (recipe.task == "language") {
        return std::make_unique<Bigrams>();
    }
    return nullptr;
}

// The loss of a batch, as a user of LibTorch would write it.
using PlainLoss = std::function<at::Tensor(Model& model, const std::shared_ptr<Batch>& batch)>;

struct PlainTraining {
    std::vector<double> losses;
    std::vector<at::Tensor> weights;
};

// SGD with momentum, in plain LibTorch.
PlainTraining train_plainly(const Recipe& recipe, const RecipeData& data, const PlainLoss& loss_of) {
    TrainPlan plan = plan_training(recipe, data, model_of(recipe), false, std::make_shared<Group>());
    std::vector<at::Tensor> velocity;
    for (const NamedTensor& entry : plan.model->parameters()) {
        velocity.push_back(at::zeros(entry.tensor.sizes()));
    }
    PlainTraining done;
    while (std::ssize(done.losses) < kTaskSteps) {
        const std::shared_ptr<Batch> batch = plan.train_loader->next();
        if (batch == nullptr) {
            continue;
        }
        const at::Tensor loss = loss_of(*plan.model, batch);
        loss.backward();
        done.losses.push_back(loss.item<double>());
        const c10::NoGradGuard no_grad;
        for (std::size_t i = 0; i < velocity.size(); ++i) {
            at::Tensor weight = plan.model->parameters()[i].tensor;
            velocity[i].mul_(recipe.optimizer.momentum).add_(weight.grad());
            weight.sub_(velocity[i], recipe.optimizer.lr);
            weight.mutable_grad().reset();
        }
    }
    for (const NamedTensor& entry : plan.model->parameters()) {
        done.weights.push_back(entry.tensor.detach());
    }
    return done;
}

void expect_same_training(const Recipe& recipe, FieldKind kind, const PlainLoss& loss) {
    const PlainTraining plain = train_plainly(recipe, data_of(kind), loss);
    Trainer trainer(recipe, data_of(kind), model_of(recipe));
    std::vector<double> losses;
    const TrainResult result = trainer.fit({.on_step = [&](const Progress& at) {
        losses.push_back(at.step_loss.item<double>());
        EXPECT_EQ(at.on_device->size(), at.samples->size());
    }});
    ASSERT_EQ(std::ssize(losses), kTaskSteps);
    for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], plain.losses[i], 1e-5) << recipe.task << ", step " << i;
    }
    for (std::size_t i = 0; i < plain.weights.size(); ++i) {
        EXPECT_TRUE(at::allclose(trainer.model().parameters()[i].tensor, plain.weights[i], 1e-5, 1e-5)) << i;
    }
    EXPECT_LT(result.epochs.back().train_loss, result.epochs.front().train_loss);
    EXPECT_FALSE(result.epochs.back().val_accuracy);
    EXPECT_EQ(result.epochs.back().val_metrics.size(), metrics_of(trainer.task()).size());
}

TEST(Tasks, MultilabelTrainsAsInPlainLibTorch) {
    expect_same_training(recipe_of("multilabel"), FieldKind::label,
                         [](Model& model, const std::shared_ptr<Batch>& batch) {
                             return at::binary_cross_entropy_with_logits(model.forward(as_tensor(batch, "image")),
                                                                         as_tensor(batch, "marks").to(at::kFloat));
                         });
}

TEST(Tasks, RegressionTrainsAsInPlainLibTorch) {
    expect_same_training(recipe_of("regression"), FieldKind::value,
                         [](Model& model, const std::shared_ptr<Batch>& batch) {
                             return at::mse_loss(model.forward(as_tensor(batch, "image")), as_tensor(batch, "angles"));
                         });
    Recipe l1 = recipe_of("regression");
    l1.train.loss = "l1";
    expect_same_training(l1, FieldKind::value, [](Model& model, const std::shared_ptr<Batch>& batch) {
        return at::l1_loss(model.forward(as_tensor(batch, "image")), as_tensor(batch, "angles"));
    });
}

TEST(Tasks, LanguageTrainsAsInPlainLibTorch) {
    expect_same_training(recipe_of("language"), FieldKind::tokens,
                         [](Model& model, const std::shared_ptr<Batch>& batch) {
                             const at::Tensor tokens = as_tensor(batch, "text");
                             const std::int64_t length = testing::kTokens - 1;
                             const at::Tensor logits = model.forward(tokens.narrow(1, 0, length));  // (N, T, K)
                             return at::cross_entropy_loss(logits.transpose(1, 2), tokens.narrow(1, 1, length));
                         });
}

TEST(Tasks, SegmentationTrainsAsInPlainLibTorch) {
    expect_same_training(recipe_of("segmentation"), FieldKind::mask,
                         [](Model& model, const std::shared_ptr<Batch>& batch) {
                             return at::cross_entropy_loss(model.forward(as_tensor(batch, "image")),
                                                           as_tensor(batch, "mask").to(at::kLong), {},
                                                           at::Reduction::Mean, /*ignore_index=*/255);
                         });
}

// The DataError of a call; the sample's key is in it.
std::string data_error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const DataError& error) {
        EXPECT_FALSE(error.place().key.empty());
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

// Named by the sample, on the CPU as on a GPU.
TEST(Tasks, ATargetThatTheModelDoesNotHaveIsNamed) {
    const auto error_of = [](const std::string& task, const std::shared_ptr<TaskDataset>& data) {
        const Recipe recipe = recipe_of(task);
        Trainer trainer(recipe, {.train = data, .val = nullptr}, model_of(recipe));
        return data_error_of([&] { trainer.fit(); });
    };
    const auto masks = std::make_shared<TaskDataset>(100, FieldKind::mask);
    masks->mask_classes = 8;
    EXPECT_THAT(
        error_of("segmentation", masks),
        AllOf(HasSubstr("classes from 0 to 1, as the model has, or 255, got 7"), HasSubstr("data.fields.mask.values")));
    const auto text = std::make_shared<TaskDataset>(100, FieldKind::tokens);
    text->last_token = kVocabulary;
    EXPECT_THAT(error_of("language", text), HasSubstr("tokens from 0 to 4, as the model has, got "));
    text->last_token = -100 - kVocabulary;  // -100 is ignored as a target, but no input
    EXPECT_THAT(error_of("language", text), HasSubstr("tokens from 0 to 4, as the model has, got -10"));
    const auto marks = std::make_shared<TaskDataset>(100, FieldKind::label);
    marks->present = 3;
    EXPECT_THAT(error_of("multilabel", marks), HasSubstr("0 or 1 for each label, got 3"));
}

// With the weighted sums of cross entropy the parts have other means; these losses are means over all elements.
TEST(Tasks, MicroBatchesGiveTheSameWeights) {
    Recipe recipe = recipe_of("regression");
    Trainer whole(recipe, data_of(FieldKind::value));
    whole.fit();
    recipe.train.accumulate = 4;
    Trainer parts(recipe, data_of(FieldKind::value));
    parts.fit();
    for (std::size_t i = 0; i < whole.model().parameters().size(); ++i) {
        EXPECT_TRUE(
            at::allclose(whole.model().parameters()[i].tensor, parts.model().parameters()[i].tensor, 1e-4, 1e-5));
    }
}

TEST(Tasks, AResumedRunHasTheSameFigures) {
    const TempDir folder;
    const Recipe recipe = recipe_of("multilabel");
    const auto run = [&](const std::filesystem::path& out, std::int64_t stop_at) {
        Trainer trainer(recipe, data_of(FieldKind::label));
        std::atomic<int> interrupt = 0;
        std::int64_t steps = 0;
        FitOptions options{.out = out, .resume = "auto", .interrupt = &interrupt};
        options.on_step = [&](const Progress&) { interrupt = ++steps == stop_at ? 15 : 0; };
        return trainer.fit(options).epochs;
    };
    const std::vector<EpochResult> whole = run(folder / "whole", 0);
    run(folder / "parts", 10);
    const std::vector<EpochResult> parts = run(folder / "parts", 0);
    EXPECT_EQ(testing::figures(parts), testing::figures(whole));
    ASSERT_EQ(parts.front().val_metrics.size(), 3U);  // of an epoch that the checkpoint holds
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(parts.front().val_metrics[i].name, whole.front().val_metrics[i].name);
        EXPECT_EQ(parts.front().val_metrics[i].value, whole.front().val_metrics[i].value);
    }
    EXPECT_EQ(testing::metrics_of(folder / "parts"), testing::metrics_of(folder / "whole"));
    EXPECT_THAT(testing::metrics_of(folder / "whole"), HasSubstr(R"("val_metrics":{"map":)"));
}

TEST(Tasks, ALossAndMetricsOfOnesOwn) {
    const CustomTask task{
        .loss = [](const at::Tensor& outputs,
                   const DeviceBatch& batch) { return at::mse_loss(outputs, batch.field("angles")); },
        .metrics = {{.name = "largest",
                     .function =
                         [](const at::Tensor& outputs, const DeviceBatch& batch) {
                             return std::get<0>(outputs.sub(batch.field("angles")).abs().max(1));  // (N)
                         },
                     .higher_is_better = false}}};
    Recipe recipe = recipe_of("classification");
    Trainer regression(recipe_of("regression"), data_of(FieldKind::value));
    regression.fit();
    recipe.train.keep_best = "val_largest";
    Trainer own(recipe, data_of(FieldKind::value), make_model(recipe.model, {1, 4, 4}, testing::kNumbers, recipe.seed),
                task);
    const TrainResult result = own.fit();
    EXPECT_EQ(own.task().kind, TaskKind::custom);
    EXPECT_TRUE(testing::same_weights(testing::weights_of(own), testing::weights_of(regression)));
    ASSERT_EQ(result.epochs.back().val_metrics.size(), 1U);
    EXPECT_LT(result.epochs.back().val_metrics[0].value, result.epochs.front().val_metrics[0].value);
}

// Both views of a sample through one network.
class TwoViews final : public Model {
  public:
    TwoViews() {
        at::Generator generator = make_generator(4);
        weight_ = parameter("weight", at::randn({3, 16}, generator));
    }
    at::Tensor forward(const at::Tensor& input) override { return at::linear(input.flatten(1), weight_); }
    std::vector<std::string> inputs() const override { return {"image", "image_2"}; }
    at::Tensor outputs(const DeviceBatch& batch) override {
        return at::stack({forward(batch.field("image")), forward(batch.field("image_2"))}, 1);  // (N, 2, 3)
    }

  private:
    at::Tensor weight_;
};

at::Tensor distance_of_views(const at::Tensor& outputs) {
    return outputs.select(1, 0).sub(outputs.select(1, 1)).square().mean();
}

// The views differ, since each has other random numbers, as in the evaluation.
TEST(Tasks, TwoViewsTrainAsInPlainLibTorch) {
    Recipe recipe = recipe_of("classification");
    recipe.data.views = 2;
    recipe.data.train_ops = recipe.data.val_ops = {{.name = "horizontal_flip", .options = {}, .where = "test"}};
    const CustomTask task{
        .loss = [](const at::Tensor& outputs, const DeviceBatch&) { return distance_of_views(outputs); },
        .metrics = {{.name = "distance", .function = [](const at::Tensor& outputs, const DeviceBatch&) {
                         return outputs.select(1, 0).sub(outputs.select(1, 1)).square().mean(1);  // (N)
                     }}}};
    const RecipeData data{.train = std::make_shared<TaskDataset>(100, FieldKind::value),
                          .val = std::make_shared<TaskDataset>(40, FieldKind::value, 2)};
    Recipe custom = recipe;
    custom.task = "custom";
    TwoViews plain;
    TrainPlan plan = plan_training(custom, data, std::make_unique<TwoViews>(), false, std::make_shared<Group>(), task);
    std::vector<double> expected;
    at::Tensor weight = plain.parameters()[0].tensor;
    at::Tensor velocity = at::zeros(weight.sizes());
    while (std::ssize(expected) < kTaskSteps) {
        const std::shared_ptr<Batch> batch = plan.train_loader->next();
        if (batch == nullptr) {
            continue;
        }
        const at::Tensor views =
            at::stack({plain.forward(as_tensor(batch, "image")), plain.forward(as_tensor(batch, "image_2"))}, 1);
        const at::Tensor loss = distance_of_views(views);
        loss.backward();
        expected.push_back(loss.item<double>());
        const c10::NoGradGuard no_grad;
        velocity.mul_(recipe.optimizer.momentum).add_(weight.grad());
        weight.sub_(velocity, recipe.optimizer.lr);
        weight.mutable_grad().reset();
    }
    Trainer trainer(recipe, data, std::make_unique<TwoViews>(), task);
    std::vector<double> losses;
    const TrainResult result =
        trainer.fit({.on_step = [&](const Progress& at) { losses.push_back(at.step_loss.item<double>()); }});
    ASSERT_EQ(std::ssize(losses), kTaskSteps);
    for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-5) << i;
    }
    EXPECT_GT(losses.front(), 1e-3);  // the views differ
    EXPECT_NEAR(result.epochs.back().val_metrics[0].value, *result.epochs.back().val_loss, 1e-6);
    EXPECT_GT(*result.epochs.back().val_loss, 0);
}

// Its loss and metrics are in a program: eval has neither.
TEST(Tasks, WeightsOfACustomTaskAreNotEvaluatedWithAnotherLoss) {
    Recipe recipe = recipe_of("custom");
    recipe.data.train = recipe.data.val = "synth:digits?count=60";
    const auto model = make_model(recipe.model, {1, 28, 28}, 10, recipe.seed);
    EXPECT_THROW(evaluate_weights(recipe, {.tensors = model->state()}), Unsupported);
}

// Keys of a classification would mix, or weight, targets that are none.
TEST(Tasks, KeysOfOtherTasksAreRefusedInAProgramToo) {
    const CustomTask task{.loss = [](const at::Tensor& outputs, const DeviceBatch&) { return outputs.mean(); }};
    Recipe recipe = recipe_of("classification");
    recipe.model.classes = 2;
    recipe.train.mixup = 0.2;
    EXPECT_THROW(Trainer(recipe, data_of(FieldKind::value), nullptr, task), InvalidArgument);
    recipe.train.mixup = 0;
    recipe.model.exported = "net.pt2";  // has a loss already; it does not exist, and is not opened
    EXPECT_THROW(Trainer(recipe, data_of(FieldKind::value), nullptr, task), InvalidArgument);
}

TEST(Tasks, RefusalsNameTheKey) {
    const auto refused = [](const Recipe& recipe, FieldKind kind, const char* text) {
        EXPECT_THAT(refusal_of(recipe, kind), HasSubstr(text));
    };
    refused(recipe_of("multilabel"), FieldKind::value, "a field of kind label for multilabel");
    refused(recipe_of("segmentation"), FieldKind::label, "a field of kind mask");
    refused(recipe_of("language"), FieldKind::tokens, "model.script or model.export");
    refused(recipe_of("custom"), FieldKind::label, "a loss of your own for custom");
    refused(recipe_of("detection"), FieldKind::label, "\"classification\", \"multilabel\"");
    Recipe wide = recipe_of("regression");
    wide.model.classes = 5;
    refused(wide, FieldKind::value, "model.classes");
    Recipe weights = recipe_of("multilabel");
    weights.train.class_weights.values = {1, 2};
    refused(weights, FieldKind::label, "3 weights, one for each class");
    Recipe best = recipe_of("regression");
    best.train.keep_best = "val_accuracy";
    refused(best, FieldKind::value, "val_loss, val_mae, val_rmse, val_r2");
}

}  // namespace
}  // namespace stoker
