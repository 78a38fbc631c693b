// Slices of a model on several ranks, here threads, against the whole model: outputs, gradients, refusals.
#include "stoker/models/tensor_parallel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "stoker/models/mlp.h"
#include "stoker/models/vit.h"
#include "support/summed.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::Summed;

constexpr std::int64_t kOutputs = 5;
constexpr std::int64_t kBatch = 6;

using MakeModel = std::function<std::unique_ptr<Model>()>;

MakeModel mlp_of(std::vector<std::int64_t> hidden, Activation activation = Activation::gelu) {
    return [hidden = std::move(hidden), activation] {
        at::Generator generator = make_generator(2);
        return std::make_unique<Mlp>(3 * 32 * 16, hidden, kOutputs, activation, generator);
    };
}

// In float64: over twelve blocks the rounding of float32 alone exceeds 1e-6.
std::unique_ptr<Model> make_vit() {
    at::Generator generator = make_generator(2);
    auto model = std::make_unique<VisionTransformer>(3, 32, 16, kOutputs, generator);
    for (const auto& [name, tensor] : model->parameters()) {
        if (name.starts_with("heads.")) {  // they begin as zeros, through which no gradient passes
            tensor.set_data(normal(tensor.sizes(), 0.1, generator));
        }
        tensor.set_data(tensor.detach().to(at::kDouble));
    }
    return model;
}

// A model after one forward and backward pass.
struct DividedPass {
    std::unique_ptr<Model> model;
    at::Tensor outputs;
};

void run_pass(DividedPass& pass) {
    at::Generator generator = make_generator(7);
    const at::ScalarType type = pass.model->parameters()[0].tensor.scalar_type();
    const DeviceBatch batch{.input = at::randn({kBatch, 3, 32, 16}, generator).to(type),
                            .target = at::arange(kBatch, at::kLong).remainder(kOutputs)};
    pass.outputs = pass.model->forward(batch.input).detach();
    pass.model->backward(pass.model->loss(batch));
}

std::vector<DividedPass> divided_passes(const MakeModel& make, int size, bool recompute) {
    Summed summed(size);
    std::vector<DividedPass> passes(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            DividedPass& pass = passes[static_cast<std::size_t>(rank)];
            pass.model = make();
            pass.model->divide({.rank = rank, .size = size, .sum = [&](const at::Tensor& sum) { summed(sum); }});
            if (recompute) {
                pass.model->enable_gradient_checkpointing();
            }
            run_pass(pass);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return passes;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
    return a.sub(b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

void expect_the_whole_model(const MakeModel& make, int size, bool recompute = false) {
    DividedPass whole{.model = make(), .outputs = {}};
    run_pass(whole);
    const std::vector<DividedPass> ranks = divided_passes(make, size, recompute);
    const std::vector<DividedParameter>& divided = ranks[0].model->divided();
    for (const DividedPass& rank : ranks) {
        EXPECT_LT(largest_difference(rank.outputs, whole.outputs), 1e-5);
        EXPECT_TRUE(at::equal(rank.outputs, ranks[0].outputs)) << "bit for bit";
    }
    for (std::size_t i = 0; i < whole.model->parameters().size(); ++i) {
        const auto& [name, parameter] = whole.model->parameters()[i];
        const auto found = std::ranges::find(divided, name, &DividedParameter::name);
        std::vector<at::Tensor> gradients;
        std::int64_t elements = 0;
        for (const DividedPass& rank : ranks) {
            gradients.push_back(rank.model->parameters()[i].tensor.grad());
            elements += gradients.back().numel();
            if (found == divided.end()) {
                EXPECT_TRUE(at::equal(gradients.back(), gradients[0])) << name << " bit for bit";
            }
        }
        const at::Tensor all = found == divided.end() ? gradients[0] : join_slices(gradients, *found);
        EXPECT_EQ(elements, parameter.numel() * (found == divided.end() ? size : 1)) << name;
        EXPECT_GT(parameter.grad().abs().max().item<double>(), 0) << name;
        EXPECT_LT(largest_difference(all, parameter.grad()), 1e-6) << name;
    }
}

TEST(TensorParallel, AnMlpHasTheWholeModelsGradients) {
    for (const int size : {2, 4}) {
        expect_the_whole_model(mlp_of({16}), size);
        expect_the_whole_model(mlp_of({16, 10}), size);  // the third layer is whole
        expect_the_whole_model(mlp_of({16, 10, 8}, Activation::relu), size);
        expect_the_whole_model(mlp_of({8, 7, 12, 5, 4}, Activation::tanh), size);
    }
}

TEST(TensorParallel, AVisionTransformerHasTheWholeModelsGradients) {
    expect_the_whole_model(make_vit, 2);
    expect_the_whole_model(make_vit, 3);
}

TEST(TensorParallel, RecomputedBlocksHaveThem) {
    expect_the_whole_model(make_vit, 2, /*recompute=*/true);
}

// The pairs of layers divide most of the weights.
TEST(TensorParallel, ARankHoldsItsPart) {
    const auto elements = [](const Model& model) {
        std::int64_t count = 0;
        for (const auto& [name, tensor] : model.parameters()) {
            count += tensor.numel();
        }
        return static_cast<double>(count);
    };
    const double whole = elements(*make_vit());
    for (const int size : {2, 3, 6}) {
        const auto model = make_vit();
        model->divide({.rank = size - 1, .size = size});
        EXPECT_NEAR(elements(*model) / whole, 1.0 / size, 0.02) << size;
    }
}

TEST(TensorParallel, SlicesJoinToTheWhole) {
    const at::Tensor weight = at::arange(12 * 3, at::kFloat).view({12, 3});
    for (const DividedParameter& parameter : {DividedParameter{.name = "a"}, DividedParameter{.name = "b", .blocks = 3},
                                              DividedParameter{.name = "c", .dim = 1}}) {
        const int size = parameter.dim == 1 ? 3 : 2;
        std::vector<at::Tensor> slices;
        for (int rank = 0; rank < size; ++rank) {
            slices.push_back(slice_of(weight, parameter, rank, size));
            EXPECT_FALSE(slices.back().is_alias_of(weight));
        }
        EXPECT_TRUE(at::equal(join_slices(slices, parameter), weight));
    }
    // Three blocks of two heads of two rows each: rank 1 has the second head of each.
    const at::Tensor second = slice_of(weight, {.name = "b", .blocks = 3}, 1, 2);
    EXPECT_TRUE(at::equal(second, at::arange(36, at::kFloat).view({3, 2, 6}).select(1, 1).reshape({6, 3})));
}

std::string refusal(const MakeModel& make, int size) {
    try {
        make()->divide({.rank = 0, .size = size});
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "";
}

TEST(TensorParallel, WhatDoesNotDivideIsRefused) {
    EXPECT_THAT(refusal(make_vit, 4), HasSubstr("[train.mesh.tp] expected a divisor of the 6 attention heads"));
    EXPECT_THAT(refusal(mlp_of({9}), 2), HasSubstr("got 2, and a layer of 9"));
    EXPECT_EQ(refusal(mlp_of({8, 9}), 2), "") << "the second layer divides its inputs, the third is whole";
    EXPECT_THAT(refusal(mlp_of({}), 2), HasSubstr("1 for an mlp without hidden layers, got 2"));
    const MakeModel convnet = [] {
        ModelRecipe recipe;
        recipe.name = "convnet";
        return make_model(recipe, {1, 28, 28}, kOutputs, /*seed=*/1);
    };
    EXPECT_THAT(refusal(convnet, 2), HasSubstr("expected 1, except for mlp and vit_s_16"));
}

TEST(TensorParallel, AnMlpIsNotFused) {
    const auto model = mlp_of({16})();
    EXPECT_NE(model->linear_chain(), nullptr);
    model->divide({.rank = 0, .size = 2});
    EXPECT_EQ(model->linear_chain(), nullptr) << "the fused step knows nothing of other ranks";
}

}  // namespace
}  // namespace stoker
