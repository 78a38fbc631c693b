// A torch::nn::Module trained by the trainer: names of its state, weights that change, running statistics, evaluation
// mode, and a layer that stays frozen.
#include "stoker/models/torch_module.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_data;
using testing::small_recipe;
using testing::TempDir;

struct Net : torch::nn::Module {
    Net() : frozen(16, 16), norm(16), head(16, 4) {
        register_module("frozen", frozen);
        register_module("norm", norm);
        register_module("head", head);
        frozen->weight.requires_grad_(false);
        frozen->bias.requires_grad_(false);
    }
    at::Tensor forward(const at::Tensor& input) {
        modes += is_training() ? 't' : 'e';
        return head->forward(norm->forward(frozen->forward(input.flatten(1))).relu());
    }

    torch::nn::Linear frozen;
    torch::nn::BatchNorm1d norm;
    torch::nn::Linear head;
    std::string modes;
};

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
    std::vector<std::string> names;
    for (const auto& tensor : tensors) {
        names.push_back(tensor.name);
    }
    return names;
}

TEST(TorchModule, TrainsThroughTheTrainer) {
    at::manual_seed(3);
    const auto net = std::make_shared<Net>();
    const at::Tensor frozen = net->frozen->weight.detach().clone();
    const at::Tensor head = net->head->weight.detach().clone();
    Trainer trainer(small_recipe(12), small_data(), std::make_unique<TorchModule<Net>>(net));
    net->modes.clear();  // of the checks before training
    const TrainResult result = trainer.fit();
    EXPECT_LT(result.epochs.back().train_loss, 0.6 * result.epochs.front().train_loss);
    EXPECT_GT(*result.epochs.back().val_accuracy, 0.6);
    EXPECT_TRUE(at::equal(net->frozen->weight, frozen));
    EXPECT_FALSE(at::equal(net->head->weight, head));
    EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 12 * testing::kStepsAnEpoch);
    EXPECT_EQ(net->modes.substr(0, 12), "ttttttteeett") << "seven steps, three batches of evaluation, the next step";
}

TEST(TorchModule, BatchNormOfOneSampleIsRefusedAtTheStart) {
    const RecipeData data = {std::make_shared<testing::SquareDataset>(97), nullptr};
    Recipe recipe = small_recipe(1);
    const auto model = [] { return std::make_unique<TorchModule<Net>>(std::make_shared<Net>()); };
    try {
        const Trainer trainer(recipe, data, model());
        ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("Expected more than 1 value per channel when training"));
        EXPECT_THAT(error.what(), HasSubstr("set data.drop_last = true"));
    }
    recipe.data.drop_last = true;
    EXPECT_NO_THROW(Trainer(recipe, data, model()));
}

TEST(TorchModule, NamesAreThoseOfTheModule) {
    const TorchModule<Net> model(std::make_shared<Net>());
    EXPECT_THAT(names(model.parameters()),
                ElementsAre("frozen.weight", "frozen.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"));
    EXPECT_THAT(names(model.buffers()),
                ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
    EXPECT_FALSE(model.parameters()[0].tensor.requires_grad());
    EXPECT_TRUE(model.parameters()[2].tensor.requires_grad());
}

TEST(TorchModule, GoesThroughACheckpoint) {
    const TempDir folder;
    const auto net = std::make_shared<Net>();
    Trainer trainer(small_recipe(1), small_data(), std::make_unique<TorchModule<Net>>(net));
    trainer.fit({.out = folder / "run"});
    const auto copy = std::make_shared<Net>();
    TorchModule<Net> model(copy);
    model.load(read_model(*find_checkpoint(folder / "run")).tensors);
    EXPECT_TRUE(at::equal(copy->head->weight, net->head->weight));
    EXPECT_TRUE(at::equal(copy->norm->running_mean, net->norm->running_mean));
}

}  // namespace
}  // namespace stoker
