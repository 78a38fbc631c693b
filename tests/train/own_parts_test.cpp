// A user's data sets, models, losses and metrics, as a C++ program hands them to a Trainer: data without images, and
// mistakes that show before the first step.
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <gmock/gmock.h>

#include <array>
#include <set>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/models/init.h"
#include "stoker/train/run/checkpoint.h"
#include "train/support.h"
#include "train/task_data.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_recipe;
using testing::TempDir;

// Samples without images: four numbers in [0, 1), whose sum is to be learned.
class Tables final : public Dataset {
  public:
    explicit Tables(std::int64_t size) : size_(size) {}

    std::int64_t size() const override { return size_; }
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        Rng rng({.seed = 1, .sample = static_cast<std::uint64_t>(index)});
        std::array<float, 4> table{};
        for (float& number : table) {
            number = static_cast<float>(rng.below(256)) / 256;
        }
        sample.field(0).copy_elements(table);
    }

  private:
    std::int64_t size_;
    std::vector<Field> fields_ = {{.name = "table", .shape = {4}}};
};

RecipeData tables() {
    return {.train = std::make_shared<Tables>(100), .val = std::make_shared<Tables>(40)};
}

Recipe recipe_of_tables() {
    Recipe recipe = small_recipe();
    recipe.data.train_ops = {};
    recipe.model.classes = 1;
    return recipe;
}

// (N): how far the outputs (N, 1) are from the sum.
at::Tensor off(const at::Tensor& outputs, const DeviceBatch& batch) {
    return outputs.select(1, 0).sub(batch.field("table").sum(1)).abs();
}

at::Tensor squared(const at::Tensor& outputs, const DeviceBatch& batch) {
    return at::mse_loss(outputs.select(1, 0), batch.field("table").sum(1));
}

TEST(OwnParts, DataWithoutImagesTrainsWithValidationAndCheckpoints) {
    const TempDir folder;
    const CustomTask task{.loss = squared, .metrics = {{"off", off, /*higher_is_better=*/false}}};
    Trainer trainer(recipe_of_tables(), tables(), nullptr, task);
    const TrainResult result = trainer.fit({.out = folder / "run"});
    EXPECT_EQ(result.epochs.size(), 3U);
    EXPECT_LT(result.epochs.back().val_metrics.at(0).value, result.epochs.front().val_metrics.at(0).value);
    const ModelFile saved = read_model(*find_checkpoint(folder / "run"));
    EXPECT_EQ(saved.metadata.at("input"), "[]");
    EXPECT_FALSE(saved.metadata.contains("mean"));
    EXPECT_EQ(saved.tensors.size(), trainer.model().state().size());
}

// The error of the constructor of a Trainer on tables.
std::string refusal_of(const CustomTask& task) {
    try {
        const Trainer trainer(recipe_of_tables(), tables(), nullptr, task);
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(OwnParts, AModelWithOtherOutputsThanTheClassesIsRefused) {
    Recipe recipe = small_recipe();
    recipe.model.classes = 5;  // the data has four of them
    try {
        const Trainer trainer(recipe, testing::small_data(), std::make_unique<testing::LinearModel>());
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("[model] expected float logits [2, 5] for 2 images and 5 classes, got Float [2, 4]"));
    }
}

TEST(OwnParts, AModelThatDoesNotTakeTheInputsIsRefused) {
    const CustomTask task{.loss = squared};
    try {
        const Trainer trainer(recipe_of_tables(), tables(), std::make_unique<testing::LinearModel>(), task);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[model] expected a model that takes table (4), got "));
    }
}

TEST(OwnParts, ALossAndMetricsAreTriedBeforeTheRun) {
    const auto unknown = [](const at::Tensor&, const DeviceBatch& batch) { return batch.field("tabel").sum(1); };
    EXPECT_THAT(refusal_of({.loss = squared, .metrics = {{"off", unknown}}}), HasSubstr("got tabel"));
    const auto broadcast = [](const at::Tensor& outputs, const DeviceBatch& batch) {
        return outputs.sub(batch.field("table").sum(1)).abs();  // (N, 1) and (N)
    };
    EXPECT_THAT(refusal_of({.loss = squared, .metrics = {{"off", broadcast}}}),
                HasSubstr("[metric off] expected one number, or one for each of the 2 samples, got [2, 2]"));
    const auto product = [](const at::Tensor& outputs, const DeviceBatch& batch) {
        return outputs.matmul(batch.field("table")).mean();  // (N, 1) and (N, 4)
    };
    EXPECT_THAT(refusal_of({.loss = product}),
                HasSubstr("[task] expected a loss and metrics that take outputs [2, 1] and the batch's fields, got "));
}

TEST(OwnParts, AShareOfTheDataIsKeptForValidation) {
    Recipe recipe = small_recipe(1);
    recipe.data.val = "20%";
    Trainer trainer(recipe, {std::make_shared<testing::SquareDataset>(100), nullptr});
    ASSERT_NE(trainer.val_loader(), nullptr);
    EXPECT_EQ(trainer.data().train->size() + trainer.data().val->size(), 100);
    EXPECT_TRUE(trainer.fit().epochs.back().val_loss);
    Recipe custom = recipe_of_tables();
    custom.data.val = "20%";
    const Trainer own(custom, {.train = tables().train, .val = nullptr}, nullptr, CustomTask{.loss = squared});
    ASSERT_NE(own.val_loader(), nullptr);
    EXPECT_EQ(own.data().train->size() + own.data().val->size(), 100);
}

TEST(OwnParts, ANamedValidationSetIsNotLeftOut) {
    Recipe recipe = small_recipe(1);
    recipe.data.val = "synth:digits";
    try {
        const Trainer trainer(recipe, {std::make_shared<testing::SquareDataset>(100), nullptr});
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("got synth:digits; open_data(recipe.data) opens what the recipe names"));
    }
    EXPECT_NO_THROW(Trainer(recipe, testing::small_data())) << "its own validation data counts";
}

TEST(OwnParts, ALossAndMetricsAreComputedInFloat32) {
    Recipe recipe = recipe_of_tables();
    recipe.train.precision = "bf16";
    std::set<at::ScalarType> types;
    const auto note = [&](const at::Tensor& outputs) {
        types.insert(outputs.scalar_type());
        types.insert(outputs.t().mm(outputs).scalar_type());
    };
    const auto loss = [&](const at::Tensor& outputs, const DeviceBatch& batch) {
        note(outputs);
        return squared(outputs, batch);
    };
    const auto metric = [&](const at::Tensor& outputs, const DeviceBatch& batch) {
        note(outputs);
        return off(outputs, batch);
    };
    Trainer(recipe, tables(), nullptr, CustomTask{.loss = loss, .metrics = {{"off", metric}}}).fit();
    EXPECT_THAT(types, ElementsAre(at::kFloat));
}

// A model of an image and the numbers of a field.
class WithNumbers final : public Model {
  public:
    explicit WithNumbers(std::string field) : field_(std::move(field)) {
        at::Generator generator = make_generator(1);
        weight_ = parameter("weight", default_uniform({testing::kNumbers, 16}, 16, generator));
    }
    at::Tensor forward(const at::Tensor& input) override { return at::linear(input.flatten(1), weight_); }
    std::vector<std::string> inputs() const override { return {"image", field_}; }
    at::Tensor outputs(const DeviceBatch& batch) override { return forward(batch.input).add(batch.field(field_)); }

  private:
    std::string field_;
    at::Tensor weight_;
};

TEST(OwnParts, AModelDoesNotTakeTheTarget) {
    Recipe recipe = small_recipe(1);
    recipe.task = "regression";
    const RecipeData data = {std::make_shared<testing::TaskDataset>(100, FieldKind::value), nullptr};
    try {
        const Trainer trainer(recipe, data, std::make_unique<WithNumbers>("angles"));
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[model] expected inputs beside the target angles, got image, angles"));
    }
    const CustomTask task{.loss = [](const at::Tensor& outputs, const DeviceBatch&) { return outputs.mean(); }};
    EXPECT_NO_THROW(Trainer(recipe, data, std::make_unique<WithNumbers>("angles"), task)) << "it has no such target";
}

}  // namespace
}  // namespace stoker
