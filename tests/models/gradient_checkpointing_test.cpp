// Gradient checkpointing gives bit-identical gradients, losses and running statistics, also under autocast, with
// micro-batches and with frozen parameters.
#include "stoker/models/gradient_checkpointing.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "stoker/models/model.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

struct CheckpointingCase {
    std::string model;
    Shape input;
    std::vector<std::string> freeze = {};
    bool bf16 = false;
    int passes = 1;  // backward passes that accumulate gradients
    bool autocast_in_backward = false;
};

std::vector<NamedTensor> pass(const CheckpointingCase& test, bool checkpoints) {
    at::set_num_threads(1);
    ModelRecipe recipe;
    recipe.name = test.model;
    const auto model = make_model(recipe, test.input, 5, 3);
    at::Generator generator = make_generator(4);
    if (test.model == "vit_s_16") {  // its last layer starts with zeros, which block all gradients
        const c10::NoGradGuard no_grad;
        at::Tensor head = model->parameters()[model->parameters().size() - 2].tensor;
        head.normal_(0, 0.1, generator);
    }
    model->freeze(test.freeze);
    model->to(at::kCPU, model->wants_channels_last());
    if (checkpoints) {
        model->enable_gradient_checkpointing();
    }
    std::vector<NamedTensor> found;
    for (int i = 0; i < test.passes; ++i) {
        const at::Tensor input = at::empty({3, test.input[0], test.input[1], test.input[2]}).normal_(0, 1, generator);
        const at::Tensor label = at::empty({3}, at::kLong).random_(0, 5, generator);
        at::autocast::set_autocast_enabled(at::kCPU, test.bf16);
        at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
        at::autocast::increment_nesting();
        const at::Tensor loss = model->loss({.input = input, .target = label});
        at::autocast::set_autocast_enabled(at::kCPU, test.bf16 && test.autocast_in_backward);
        if (test.autocast_in_backward) {
            model->backward(loss);
        }
        EXPECT_EQ(at::autocast::is_autocast_enabled(at::kCPU), test.bf16 && test.autocast_in_backward);
        at::autocast::decrement_nesting();
        at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(at::kCPU, false);
        if (!test.autocast_in_backward) {
            model->backward(loss);
        }
        found.push_back({"loss", loss.detach()});
    }
    for (const auto& [name, tensor] : model->parameters()) {
        EXPECT_EQ(tensor.grad().defined(), tensor.requires_grad()) << name;
        found.push_back({"gradient of " + name, tensor.grad()});
    }
    for (const auto& [name, tensor] : model->buffers()) {
        found.push_back({name, tensor});
    }
    return found;
}

void expect_the_same(const CheckpointingCase& test) {
    const auto plain = pass(test, false);
    const auto recomputed = pass(test, true);
    ASSERT_EQ(plain.size(), recomputed.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(plain[i].tensor.defined(), recomputed[i].tensor.defined()) << plain[i].name;
        if (plain[i].tensor.defined()) {
            EXPECT_TRUE(at::equal(plain[i].tensor, recomputed[i].tensor)) << test.model << ": " << plain[i].name;
        }
    }
}

TEST(Checkpointing, GradientsAndStatisticsAreUnchanged) {
    for (const char* model : {"convnet", "resnet18", "resnet50", "vit_s_16"}) {
        expect_the_same({.model = model, .input = {3, 16, 16}});
    }
}

TEST(Checkpointing, WorksUnderAutocast) {
    for (const char* model : {"convnet", "vit_s_16"}) {
        expect_the_same({.model = model, .input = {3, 16, 16}, .bf16 = true});
        expect_the_same({.model = model, .input = {3, 16, 16}, .bf16 = true, .autocast_in_backward = true});
    }
}

TEST(Checkpointing, GradientsOfMicroBatchesAccumulate) {
    expect_the_same({.model = "resnet18", .input = {3, 8, 8}, .passes = 3});
}

TEST(Checkpointing, WorksWithFrozenParameters) {
    for (const auto& freeze : std::vector<std::vector<std::string>>{{"conv1.*", "bn1.*"},
                                                                    {"conv1.*", "bn1.*", "layer1.*", "layer2.0.*"},
                                                                    {"layer3.1.conv*"},
                                                                    {"*bn*"},
                                                                    {"fc.*"}}) {
        expect_the_same({.model = "resnet18", .input = {3, 8, 8}, .freeze = freeze});
    }
    expect_the_same({.model = "convnet", .input = {1, 12, 12}, .freeze = {"conv*"}});
}

TEST(Checkpointing, KeepsOnlyTheInput) {
    // The activation inside the block is freed after the forward pass and computed again in the backward pass.
    const at::Tensor weight = at::empty({4, 4}).fill_(0.5).requires_grad_(true);
    const at::Tensor input = at::empty({2, 4}).fill_(1);
    std::vector<bool> runs;
    c10::weak_intrusive_ptr<c10::TensorImpl> activation(c10::intrusive_ptr<c10::TensorImpl>{});
    const BlockForward block = [&](const at::Tensor& x, bool recompute) {
        runs.push_back(recompute);
        const at::Tensor inner = at::relu(at::linear(x, weight));
        activation = c10::weak_intrusive_ptr<c10::TensorImpl>(inner.getIntrusivePtr());
        return at::linear(inner, weight);
    };
    const at::Tensor kept = block(input, false);
    EXPECT_FALSE(activation.expired());
    const at::Tensor output = gradient_checkpoint(block, input, {weight});
    EXPECT_TRUE(activation.expired());
    output.sum().backward();
    EXPECT_EQ(runs, (std::vector<bool>{false, false, true}));
    const at::Tensor gradient = weight.grad().clone();
    weight.mutable_grad().reset();
    kept.sum().backward();
    EXPECT_TRUE(at::equal(weight.grad(), gradient));
}

TEST(Checkpointing, WithoutGradientsItRunsOnce) {
    const at::Tensor weight = at::empty({4, 4}).fill_(0.5).requires_grad_(true);
    int runs = 0;
    const BlockForward block = [&](const at::Tensor& x, bool) {
        ++runs;
        return at::linear(x, weight);
    };
    const c10::NoGradGuard no_grad;
    EXPECT_FALSE(gradient_checkpoint(block, at::empty({2, 4}).fill_(1), {weight}).requires_grad());
    EXPECT_EQ(runs, 1);
}

TEST(Checkpointing, AModelWithoutBlocksIsRefused) {
    const auto model = make_model({}, {1, 4, 4}, 3, 1);
    try {
        model->enable_gradient_checkpointing();
        ADD_FAILURE() << "an MLP lacks blocks";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("train.gradient_checkpointing"));
    }
}

}  // namespace
}  // namespace stoker
