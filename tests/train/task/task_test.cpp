// The task of a recipe and a loader: which field is the target, and how a batch reaches the model.
#include "stoker/train/task/task.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <array>

#include "stoker/base/error.h"
#include "stoker/bridge/tensor.h"
#include "train/task_data.h"

namespace stoker {
namespace {

using testing::TaskDataset;

// Sentences of 2 to 5 tokens, as many as the index says, padded to five.
class Sentences final : public Dataset {
  public:
    std::int64_t size() const override { return 8; }
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        std::vector<std::int64_t> tokens;
        for (std::int64_t i = 0; i < 2 + index % 4; ++i) {
            tokens.push_back(1 + i);
        }
        sample.field(0).copy_elements(tokens);
    }

  private:
    std::vector<Field> fields_ = {{.name = "text", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {-1}}};
};

Loader loader_of(std::shared_ptr<const Dataset> data,
                 const LoaderOptions& options = {.batch_size = 8, .shuffle = false}) {
    return {std::move(data), Transform(), options};
}

DeviceBatch batch_of(const Task& task, Loader& loader) {
    DeviceCopier copier(at::kCPU, task.fields);
    DeviceBatch batch = copier.copy(loader.next());
    batch.in_slot = true;
    prepare(task, batch);
    return batch;
}

TEST(Task, TargetsHaveTheShapesOfTheLoss) {
    Recipe recipe;
    recipe.task = "multilabel";
    Loader marks = loader_of(std::make_shared<TaskDataset>(8, FieldKind::label));
    const Task labels = make_task(recipe, marks);
    EXPECT_EQ(labels.outputs, testing::kLabels);
    EXPECT_EQ(labels.fields.target, "marks");
    EXPECT_EQ(batch_of(labels, marks).target.scalar_type(), at::kFloat);
    recipe.task = "segmentation";
    Loader masks = loader_of(std::make_shared<TaskDataset>(8, FieldKind::mask));
    const Task pixels = make_task(recipe, masks);
    const DeviceBatch segmented = batch_of(pixels, masks);
    const at::Tensor& mask = segmented.target;
    EXPECT_FALSE(segmented.in_slot) << "its masks were bytes in the slot";
    EXPECT_EQ(mask.scalar_type(), at::kLong);
    EXPECT_EQ(mask.sizes(), (at::IntArrayRef{8, 4, 4}));
    EXPECT_EQ(pixels.loss.ignore_index, 255);
    const DeviceBatch zeros = zero_batch(pixels, 3, at::kCPU);
    EXPECT_EQ(zeros.input.sizes(), (at::IntArrayRef{3, 1, 4, 4}));
    EXPECT_EQ(zeros.target.sizes(), (at::IntArrayRef{3, 4, 4}));
}

// The batch that checks of a model run on has the types of a step, in which images that travel as bytes are floats.
TEST(Task, ZerosAreFloatsWhereImagesTravelAsBytes) {
    Recipe recipe;
    recipe.task = "custom";
    Loader loader = loader_of(std::make_shared<TaskDataset>(8, FieldKind::mask),
                              {.batch_size = 8, .images = PixelImages{.dtype = {}}, .views = 2});
    const Task task = make_task(recipe, loader);
    EXPECT_EQ(batch_of(task, loader).field("image_2").scalar_type(), at::kByte);
    const DeviceBatch zeros = zero_batch(task, 3, at::kCPU);
    EXPECT_EQ(zeros.field("image").scalar_type(), at::kFloat);
    EXPECT_EQ(zeros.field("image_2").scalar_type(), at::kFloat);
    EXPECT_EQ(zeros.field("mask").scalar_type(), at::kByte);
}

TEST(Task, PaddingOfTokensIsIgnored) {
    Recipe recipe;
    recipe.task = "language";
    Loader ragged = loader_of(std::make_shared<Sentences>());
    EXPECT_THROW(make_task(recipe, ragged), InvalidArgument);
    Loader loader = loader_of(std::make_shared<Sentences>(),
                              {.batch_size = 8, .shuffle = false, .fields = {{.name = "text", .pad = 5}}});
    const Task task = make_task(recipe, loader);
    EXPECT_EQ(task.input, Shape{4});
    const DeviceBatch batch = batch_of(task, loader);
    EXPECT_EQ(zero_batch(task, 8, at::kCPU).fields.size(), batch.fields.size());  // the lengths
    for (std::int64_t i = 0; i < 8; ++i) {
        const std::int64_t length = 2 + i % 4;
        for (std::int64_t at = 0; at < 4; ++at) {
            EXPECT_EQ(batch.target[i][at].item<std::int64_t>(), at + 1 < length ? at + 2 : -100) << i << " " << at;
            EXPECT_EQ(batch.input[i][at].item<std::int64_t>(), at < length ? at + 1 : 0) << i << " " << at;
        }
    }
    recipe.task = "regression";
    EXPECT_THROW(make_task(recipe, loader), InvalidArgument);  // no images
}

// Two numbers in float64, as a table of text has them.
class Doubles final : public Dataset {
  public:
    std::int64_t size() const override { return 8; }
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        sample.field(0).copy_elements(std::array{static_cast<double>(index), 0.5});
    }

  private:
    std::vector<Field> fields_ = {{.name = "table", .dtype = DType::float64, .shape = {2}}};
};

TEST(Task, NumbersInFloat64BecomeFloat32) {
    Recipe recipe;
    recipe.task = "custom";
    Loader loader = loader_of(std::make_shared<Doubles>());
    const Task task = make_task(recipe, loader);
    const DeviceBatch batch = batch_of(task, loader);
    EXPECT_FALSE(batch.in_slot);
    const DeviceBatch zeros = zero_batch(task, 8, at::kCPU);
    for (const DeviceBatch* of : {&batch, &zeros}) {
        EXPECT_EQ(of->input.scalar_type(), at::kFloat);
        EXPECT_EQ(of->field("table").scalar_type(), at::kFloat);
    }
    EXPECT_EQ(batch.input[7][0].item<float>(), 7);
    EXPECT_EQ(batch.input[7][1].item<float>(), 0.5F);
}

TEST(Task, WeightsOfRareClassesAreLarger) {
    struct Labelled final : Dataset {
        std::int64_t size() const override { return 10; }
        void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
        std::optional<std::int64_t> label(std::int64_t index) const override { return index < 8 ? 0 : 1; }
    };
    Task task{.outputs = 3};
    set_weights(task, {}, Labelled(), at::kCPU);
    EXPECT_FALSE(task.loss.weight.defined());
    set_weights(task, {.balanced = true}, Labelled(), at::kCPU);
    EXPECT_NEAR(task.loss.weight[0].item<double>(), 10 / (3 * 8.0), 1e-6);
    EXPECT_NEAR(task.loss.weight[1].item<double>(), 10 / (3 * 2.0), 1e-6);
    EXPECT_EQ(task.loss.weight[2].item<double>(), 0);  // never occurs
    struct OneBad final : Dataset {
        std::int64_t size() const override { return 10; }
        void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
        std::optional<std::int64_t> label(std::int64_t index) const override {
            if (index == 9) {
                throw DataError({}, {.where = "test", .expected = "a label below 3", .got = "200"});
            }
            return index < 8 ? 0 : 1;
        }
    };
    set_weights(task, {.balanced = true}, OneBad(), at::kCPU);
    EXPECT_NEAR(task.loss.weight[0].item<double>(), 10 / (3 * 8.0), 1e-6);
    EXPECT_NEAR(task.loss.weight[1].item<double>(), 10 / (3 * 1.0), 1e-6);
    EXPECT_THROW(set_weights(task, {.values = {1, 2}}, Labelled(), at::kCPU), InvalidArgument);
    EXPECT_THROW(set_weights(task, {.balanced = true}, TaskDataset(3, FieldKind::label), at::kCPU), InvalidArgument);
}

}  // namespace
}  // namespace stoker
