// The parts of a run: classes that agree, evaluation, the smallest batch, and errors of LibTorch as Stoker's, in one
// line.
#include "stoker/train/run/run_setup.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/fake_torch_cuda.h"
#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "stoker/train/run/model_checks.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearModel;
using ::testing::Not;
using testing::small_data;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;

// Squares with other class names, or with labels shifted out of range.
class ChangedSquares final : public Dataset {
  public:
    explicit ChangedSquares(std::vector<std::string> classes, std::int64_t shift = 0)
        : classes_(std::move(classes)), shift_(shift) {}
    std::int64_t size() const override { return squares_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        squares_.read(index, sample);
        sample.label += shift_;
    }
    std::span<const std::string> classes() const override { return classes_; }

  private:
    SquareDataset squares_{40};
    std::vector<std::string> classes_;
    std::int64_t shift_;
};

// The message of the Error that `work` throws; a c10::Error would not be caught here.
template <typename Work>
std::string message_of(const Work& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

const auto kIsOneLine = AllOf(Not(HasSubstr("\n")), Not(HasSubstr("Exception raised from")));

// On a CPU the loader normalises; a GPU does it after the copy. No GPU is needed to make its loader.
TEST(RunSetup, ImagesTravelAsBytesToAGpuOnly) {
    const Recipe recipe = small_recipe();
    for (const bool channels_last : {false, true}) {
        const auto cpu = make_train_loader(recipe, small_data(), at::kCPU, channels_last);
        EXPECT_EQ(cpu->field_specs().front().dtype, DType::float32);
        EXPECT_FALSE(cpu->field_specs().front().deferred);
        const auto gpu = make_train_loader(recipe, small_data(), {at::kCUDA, 0}, channels_last);
        const FieldSpec& image = gpu->field_specs().front();
        EXPECT_EQ(image.dtype, DType::uint8);
        ASSERT_TRUE(image.deferred);
        EXPECT_EQ(image.deferred->layout, channels_last ? Layout::hwc : Layout::chw);
        EXPECT_EQ(image.deferred->factors, normalize_factors({}));
    }
}

// The type of images that the loader normalises: that to which the model's first layer casts them.
TEST(RunSetup, ImagesOfFloatsTravelInTheTypeOfTheModelsInput) {
    Recipe recipe = small_recipe();
    recipe.train.precision = "bf16";
    recipe.model.name = "resnet18";
    EXPECT_EQ(input_dtype(recipe, at::kCPU, /*own_parts=*/false), DType::bfloat16);
    EXPECT_EQ(input_dtype(recipe, at::kCPU, /*own_parts=*/true), DType::float32);
    recipe.data.train_ops = {{.name = "to_float"}};
    const auto gpu = make_train_loader(recipe, small_data(), {at::kCUDA, 0}, false, Group(), DType::bfloat16);
    EXPECT_EQ(gpu->field_specs().front().dtype, DType::bfloat16);
    EXPECT_FALSE(gpu->field_specs().front().deferred);
    recipe.model.name = "mlp";
    EXPECT_EQ(input_dtype(recipe, at::kCPU, false), DType::float32);
    recipe.model.name = "resnet18";
    recipe.model.script = "model.pt";
    EXPECT_EQ(input_dtype(recipe, at::kCPU, false), DType::float32);
    recipe.model.script.clear();
    recipe.train.precision = "fp32";
    EXPECT_EQ(input_dtype(recipe, at::kCPU, false), DType::float32);
}

TEST(TorchErrors, ModelTooLargeForTheMemory) {
    Recipe recipe = small_recipe();
    recipe.model.hidden = {std::int64_t{1} << 42};  // 256 TiB of weights, more than the address space
    const std::string message = message_of([&] { Trainer(recipe, small_data()); });
    EXPECT_THAT(message, AllOf(kIsOneLine, HasSubstr("[memory]"), HasSubstr("or model")));
}

TEST(TorchErrors, LabelsOutOfRange) {
    const std::vector<std::string> classes = {"a", "b", "c", "d"};
    const auto shifted = std::make_shared<ChangedSquares>(classes, 7);
    const auto sound = std::make_shared<ChangedSquares>(classes);
    for (const bool own_model : {false, true}) {
        const auto model = [&] { return own_model ? std::make_unique<LinearModel>() : nullptr; };
        Trainer training(small_recipe(), {shifted, nullptr}, model());
        EXPECT_THAT(message_of([&] { training.fit(); }), AllOf(kIsOneLine, HasSubstr("a class from 0 to 3, got")));
        Trainer evaluating(small_recipe(), {sound, shifted}, model());
        EXPECT_THAT(message_of([&] { evaluating.fit(); }), AllOf(kIsOneLine, HasSubstr("a class from 0 to 3, got")));
        EXPECT_THAT(message_of([&] { evaluating.evaluate(); }),
                    AllOf(kIsOneLine, HasSubstr("a class from 0 to 3, got")));
    }
}

// The same samples with the classes in another order are the same to the model.
TEST(Classes, OfValidationDataAreMatchedByName) {
    const auto dataset = [](std::vector<std::string> classes, std::int64_t shift = 0) {
        return std::make_shared<ChangedSquares>(std::move(classes), shift);
    };
    const auto train = dataset({"a", "b", "c", "d"});
    const auto loss = [&](std::shared_ptr<const Dataset> val) {
        return Trainer(small_recipe(), {train, std::move(val)}).evaluate().loss;
    };
    EXPECT_EQ(loss(dataset({"a", "b", "c", "d"})), loss(dataset({"d", "a", "b", "c", "d"}, 1)));
    EXPECT_NE(loss(dataset({"a", "b", "c", "d"})), loss(dataset({"d", "c", "b", "a"})));
    EXPECT_THAT(message_of([&] {
                    loss(dataset({"a", "b", "x", "d"}));
                }),
                AllOf(kIsOneLine, HasSubstr("got 1 other: \"x\"")));
}

// Images of 2x2 pixels, one for each label.
void write_idx(const fs::path& folder, const std::string& stem, const std::string& labels) {
    const auto count = static_cast<char>(labels.size());
    std::ofstream(folder / (stem + "-images-idx3-ubyte"), std::ios::binary)
        << std::string{0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2} << std::string(labels.size() * 4, 'x');
    std::ofstream(folder / (stem + "-labels-idx1-ubyte"), std::ios::binary)
        << std::string{0, 0, 8, 1, 0, 0, 0, count} << labels;
}

TEST(Classes, SmallTestSetWithoutTheLastDigitTrains) {
    const TempDir folder;
    write_idx(folder.path(), "train", {0, 1, 2, 3});
    write_idx(folder.path(), "t10k", {0, 2});
    Recipe recipe = small_recipe(1);
    recipe.data.train = folder.path().string();
    EXPECT_TRUE(Trainer(recipe).fit().epochs[0].val_loss);
    write_idx(folder.path(), "t10k", {0, 4});
    EXPECT_THROW(Trainer{recipe}, InvalidArgument);
}

TEST(EvaluateWeights, NeedsNoTrainingDataBesideDataOfItsOwn) {
    Recipe recipe = small_recipe(1);
    recipe.data.train = recipe.data.val = "synth:digits?count=60";
    Trainer trainer(recipe);
    trainer.fit();
    const Evaluation want = trainer.evaluate();
    recipe.data.train = "/nonexistent/images";
    const Evaluation got = evaluate_weights(recipe, {.tensors = testing::weights_of(trainer)});
    EXPECT_GT(got.samples, 0);
    EXPECT_EQ(got.samples, want.samples);
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_EQ(got.accuracy, want.accuracy);
    recipe.data.val = "10%";
    EXPECT_THROW(evaluate_weights(recipe, {.tensors = testing::weights_of(trainer)}), Error);
}

TEST(Evaluation, ReportsItsProgress) {
    Recipe recipe = small_recipe(2);
    recipe.data.train = recipe.data.val = "synth:digits?count=600";
    recipe.data.batch_size = 32;  // 100 samples of the test split: 4 batches
    Trainer trainer(recipe);
    std::vector<std::int64_t> done;
    const auto note = [&](const EvaluationProgress& at) {
        done.push_back(at.samples);
        EXPECT_EQ(at.of, 100);
        EXPECT_GT(at.images_per_second, 0);
    };
    trainer.fit({.on_evaluation = note});
    EXPECT_THAT(done, ElementsAre(32, 64, 96, 100, 32, 64, 96, 100));
    done.clear();
    evaluate_weights(recipe, {.tensors = testing::weights_of(trainer)}, {}, note);
    EXPECT_THAT(done, ElementsAre(32, 64, 96, 100));
}

// A model that refuses batches below `fewest` samples and counts its forward passes in a buffer.
class Counting final : public Model {
  public:
    explicit Counting(std::int64_t fewest) : fewest_(fewest) {
        at::Generator generator = make_generator(1);
        weight_ = parameter("weight", default_uniform({4, 16}, 16, generator));
        passes_ = buffer("passes", at::zeros({}));
    }
    at::Tensor forward(const at::Tensor& input) override {
        passes_.add_(1);
        ++calls;
        TORCH_CHECK(input.size(0) >= fewest_, "a test's model takes no such batch. Nor another");
        return at::linear(input.flatten(1), weight_);
    }
    int calls = 0;

  private:
    std::int64_t fewest_;
    at::Tensor weight_;
    at::Tensor passes_;
};

RecipeData squares(std::int64_t samples) {
    return {std::make_shared<SquareDataset>(samples), nullptr};
}

TEST(SmallestBatch, IsRefusedAtTheStartWhereTheModelDoesNotTakeIt) {
    const auto message = [](std::int64_t samples, std::int64_t batch, std::int64_t accumulate) {
        Recipe recipe = small_recipe(1);
        recipe.data.batch_size = batch;
        recipe.train.accumulate = accumulate;
        return message_of([&] { Trainer(recipe, squares(samples), std::make_unique<Counting>(2)); });
    };
    EXPECT_EQ(message(97, 16, 1),
              "[data.drop_last] expected at least two samples at a time, without which this model does not train, got "
              "one in an epoch's last batch of 1 (a test's model takes no such batch); set data.drop_last = true, or "
              "another data.batch_size");
    EXPECT_THAT(message(99, 16, 2),
                AllOf(HasSubstr("[train.accumulate]"), HasSubstr("one in an epoch's last batch of 3, in 2 parts"),
                      HasSubstr("lower it, or set data.drop_last = true")));
    EXPECT_THAT(message(96, 16, 9),
                AllOf(HasSubstr("[train.accumulate]"), HasSubstr("one in a batch of 16, in 9 parts"),
                      HasSubstr("lower it, or set a larger data.batch_size")));
    EXPECT_THAT(message(5, 1, 1), AllOf(HasSubstr("[data.batch_size]"), HasSubstr("one in a batch of 1")));
}

TEST(SmallestBatch, IsNotTriedWhereItIsLargeEnough) {
    Recipe recipe = small_recipe(1);
    recipe.train.accumulate = 8;
    const auto calls = [&](std::int64_t samples, bool drop_last) {
        recipe.data.drop_last = drop_last;
        auto model = std::make_unique<Counting>(1);
        const Counting& counting = *model;
        const Trainer trainer(recipe, squares(samples), std::move(model));
        return counting.calls;
    };
    constexpr int kOutputs = 1;  // the call that looks at the outputs
    EXPECT_EQ(calls(96, false), kOutputs);
    EXPECT_EQ(calls(97, true), kOutputs);
    EXPECT_EQ(calls(97, false), kOutputs + 1);
}

TEST(SmallestBatch, LeavesTheModelAsItWas) {
    auto model = std::make_unique<Counting>(1);
    const Counting& counting = *model;
    at::manual_seed(3);
    const at::Tensor next = at::randn({4});
    at::manual_seed(3);
    const Trainer trainer(small_recipe(1), squares(97), std::move(model));
    EXPECT_EQ(counting.calls, 2) << "for the smallest batch, and for the outputs";
    EXPECT_EQ(counting.buffers()[0].tensor.item<double>(), 0);
    EXPECT_TRUE(at::equal(at::randn({4}), next));
}

TEST(SmallestBatch, IsNotToBlameForAModelThatTakesNone) {
    EXPECT_THAT(
        message_of([&] { Trainer(small_recipe(1), squares(97), std::make_unique<Counting>(1000)); }),
        HasSubstr("[model] expected a model that takes images (1, 4, 4), got a test's model takes no such batch"));
}

// The device is full when one sample is tried, and no longer when two are.
TEST(SmallestBatch, IsNotToBlameForTooLittleMemory) {
    auto model = std::make_unique<LinearModel>();
    int calls = 0;
    model->before_forward = [&] {
        if (++calls == 1) {
            C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
        }
    };
    model->add_buffer("not a chain of layers", at::zeros({}));
    EXPECT_THAT(message_of([&] { Trainer(small_recipe(1), squares(97), std::move(model)); }), HasSubstr("[memory]"));
}

TEST(SmallestBatch, OfBatchNormOverOnePixel) {
    Recipe recipe = small_recipe(1);
    recipe.model.name = "resnet18";
    EXPECT_THAT(message_of([&] { Trainer(recipe, squares(97)); }),
                AllOf(kIsOneLine, HasSubstr("[data.drop_last]"), HasSubstr("more than one value per channel")));
    recipe.data.drop_last = true;
    EXPECT_NO_THROW(Trainer(recipe, squares(97)));
}

// What LibTorch has counts, not what this build could use.
TEST(StepOptionsOfARecipe, PrecisionFitsTheGpu) {
    testing::FakeTorchCuda library;
    const ReplacedTorchCuda replaced(library);
    const auto precision = [&](int major) {
        library.devices.front().major = major;
        return run_precision(small_recipe(), {at::kCUDA, 0}).autocast;
    };
    EXPECT_EQ(precision(7), at::kHalf);
    EXPECT_EQ(precision(8), at::kBFloat16);
    EXPECT_EQ(precision(12), at::kBFloat16);
}

TEST(StepOptionsOfARecipe, ExportedGraphKeepsItsPrecisionUnlessTf32IsSet) {
    const at::Device gpu(at::kCUDA, 0);  // need not exist
    Recipe recipe = small_recipe();
    EXPECT_TRUE(step_options(recipe, {}, gpu).precision.autocast);
    EXPECT_TRUE(step_options(recipe, {}, gpu).precision.tf32);
    recipe.model.exported = "net.pt2";
    EXPECT_FALSE(step_options(recipe, {}, gpu).precision.autocast);
    EXPECT_FALSE(step_options(recipe, {}, gpu).precision.tf32);
    recipe.train.precision = "tf32";
    EXPECT_FALSE(step_options(recipe, {}, gpu).precision.autocast);
    EXPECT_TRUE(step_options(recipe, {}, gpu).precision.tf32);
}

}  // namespace
}  // namespace stoker
