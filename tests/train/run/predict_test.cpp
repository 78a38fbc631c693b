// Every sample has a prediction row, also where it cannot be read.
#include "stoker/train/run/predict.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

// Neither sample `bad` nor its key can be read.
class Damaged final : public Dataset {
  public:
    explicit Damaged(std::int64_t bad) : bad_(bad) {}
    std::int64_t size() const override { return whole_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        check(index);
        whole_.read(index, sample);
    }
    std::string key(std::int64_t index) const override {
        check(index);
        return "key " + std::to_string(index);
    }

  private:
    void check(std::int64_t index) const {
        if (index == bad_) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    }

    testing::SquareDataset whole_ = testing::SquareDataset(5);
    std::int64_t bad_;
};

TEST(Predict, ASampleWithoutAKeyHasItsRow) {
    Loader loader(std::make_shared<Damaged>(3), Transform(), {.batch_size = 2, .shuffle = false, .bad_samples = 5});
    testing::LinearModel model;
    std::vector<Prediction> rows;
    predict(model, loader, at::kCPU,
            [&](const std::vector<Prediction>& batch) { rows.insert(rows.end(), batch.begin(), batch.end()); });
    ASSERT_EQ(rows.size(), 5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].key, i == 3 ? "3" : "key " + std::to_string(i));
        EXPECT_EQ(rows[i].error, i == 3 ? "expected pixels, got rubbish" : "");
        EXPECT_EQ(rows[i].values.size(), i == 3 ? 0 : 4);
    }
}

// Autocast casts what enters a layer; the loss, the metrics and the predictions are of float32 outputs.
TEST(Predict, RunsInThePrecisionOfTraining) {
    for (const bool half : {false, true}) {
        const Precision precision = half ? Precision{.autocast = at::kBFloat16} : Precision();
        testing::LinearModel model;
        std::vector<at::ScalarType> types;
        model.on_logits = [&](const at::Tensor& logits) { types.push_back(logits.scalar_type()); };
        Loader loader(std::make_shared<testing::SquareDataset>(5), Transform(), {.batch_size = 5, .shuffle = false});
        predict(
            model, loader, at::kCPU, [](const auto&) {}, {}, precision);
        EXPECT_EQ(types, std::vector{half ? at::kBFloat16 : at::kFloat});
    }
}

TEST(Evaluate, RunsInThePrecisionOfTraining) {
    for (const std::string precision : {"fp32", "bf16"}) {
        Recipe recipe = testing::small_recipe(1);
        recipe.train.precision = precision;
        auto model = std::make_unique<testing::LinearModel>();
        testing::LinearModel& own = *model;
        std::vector<at::Tensor> logits;
        own.on_logits = [&](const at::Tensor& batch) { logits.push_back(batch); };
        const RecipeData data = testing::small_data();
        Trainer trainer(recipe, data, std::move(model));
        logits.clear();
        const double loss = trainer.evaluate().loss;
        const at::Tensor all = at::cat(logits);
        EXPECT_EQ(all.scalar_type(), precision == "bf16" ? at::kBFloat16 : at::kFloat);
        std::vector<std::int64_t> labels;
        for (std::int64_t i = 0; i < data.val->size(); ++i) {
            Sample sample;
            data.val->read(i, sample);
            labels.push_back(sample.label);
        }
        const at::Tensor expected = at::cross_entropy_loss(all.to(at::kFloat), at::tensor(labels));
        EXPECT_NEAR(loss, expected.item<double>(), 1e-6);
    }
}

}  // namespace
}  // namespace stoker
