// Data sets, models, losses and metrics of one's own, as a C++ program hands them to a Trainer: data without images,
// and mistakes that show before the first step.
#include <ATen/ops/mse_loss.h>

#include <array>

#include "stoker/train/run/checkpoint.h"
#include "train/support.h"

namespace stoker {
namespace {

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

}  // namespace
}  // namespace stoker
