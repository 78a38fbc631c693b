// A model as a sequence of blocks, and divided into stages: the same bits as the whole model.
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>

#include "stoker/models/init.h"
#include "stoker/models/model.h"

namespace stoker {
namespace {

std::unique_ptr<Model> model_named(const std::string& name) {
    ModelRecipe recipe;
    recipe.name = name;
    recipe.hidden = {16, 12, 8};
    auto model = make_model(recipe, {3, 32, 32}, /*classes=*/5, 3);
    at::Generator generator = make_generator(4);
    for (const auto& [tensor_name, tensor] : model->parameters()) {
        if (tensor_name.starts_with("heads.")) {  // they begin as zeros, through which no gradient passes
            tensor.set_data(normal(tensor.sizes(), 0.1, generator));
        }
    }
    return model;
}

at::Tensor images() {
    at::Generator generator = make_generator(7);
    return at::randn({4, 3, 32, 32}, generator);
}

const at::Tensor& find(const std::vector<NamedTensor>& state, const std::string& name) {
    return std::ranges::find(state, name, &NamedTensor::name)->tensor;
}

class ModelBlocks : public ::testing::TestWithParam<const char*> {};

TEST_P(ModelBlocks, HaveEachTensorOnce) {
    const auto model = model_named(GetParam());
    const auto blocks = model->blocks();
    EXPECT_GE(blocks.size(), 4U);
    for (const auto& [name, tensor] : model->state()) {
        const std::string& wanted = name;
        EXPECT_EQ(std::ranges::count_if(blocks, [&](const ModelBlock& block) { return block.has(wanted); }), 1) << name;
    }
}

// Two stages, as on two ranks: the second gets the first one's output, the first the gradient of it.
TEST_P(ModelBlocks, StagesDoWhatTheWholeModelDoes) {
    const auto whole = model_named(GetParam());
    const at::Tensor outputs = whole->forward(images());
    outputs.square().sum().backward();
    const std::size_t count = whole->blocks().size();
    for (const std::size_t cut : {std::size_t{1}, count / 2, count - 1}) {
        const auto first = model_named(GetParam());
        const auto second = model_named(GetParam());
        first->keep_blocks(0, cut);
        second->keep_blocks(cut, count);
        const at::Tensor between = first->forward_stage(images());
        const at::Tensor received = between.detach().requires_grad_();
        const at::Tensor last = second->forward_stage(received);
        EXPECT_TRUE(at::equal(last, outputs));
        last.square().sum().backward();
        between.backward(received.grad());
        EXPECT_EQ(first->state().size() + second->state().size(), whole->state().size());
        for (const auto* stage : {first.get(), second.get()}) {
            EXPECT_EQ(stage->whole_state_names(), whole->whole_state_names());
            for (const auto& [name, tensor] : stage->parameters()) {
                EXPECT_TRUE(at::equal(tensor.grad(), find(whole->parameters(), name).grad())) << name;
            }
            for (const auto& [name, tensor] : stage->buffers()) {
                EXPECT_TRUE(at::equal(tensor, find(whole->buffers(), name))) << name << ", a running statistic";
            }
        }
    }
}

TEST_P(ModelBlocks, OtherStagesTakeNoMemory) {
    const auto model = model_named(GetParam());
    const std::vector<NamedTensor> all = model->state();
    model->keep_blocks(0, 1);
    EXPECT_TRUE(model->is_stage());
    EXPECT_EQ(model->linear_chain(), nullptr);
    for (const auto& [name, tensor] : all) {
        const std::string& wanted = name;
        const bool kept = std::ranges::any_of(model->state(), [&](const auto& own) { return own.name == wanted; });
        EXPECT_EQ(tensor.storage().nbytes() > 0, kept) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, ModelBlocks, ::testing::Values("mlp", "convnet", "resnet18", "resnet50", "vit_s_16"));

TEST(ModelBlock, HasTensorsByPattern) {
    const ModelBlock block{.name = "stem", .tensors = {"conv1.*", "bn1.*"}};
    EXPECT_TRUE(block.has("conv1.weight"));
    EXPECT_TRUE(block.has("bn1.running_mean"));
    EXPECT_FALSE(block.has("layer1.0.conv1.weight"));
    EXPECT_FALSE(block.has("conv10.weight"));
}

}  // namespace
}  // namespace stoker
