// The fused kernels compared with the readable reference, state that goes through a checkpoint, and parameters without
// a gradient. test_train_parity.py compares with PyTorch's optimisers.
#include "stoker/train/step/optimizer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <array>
#include <map>

#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "support/ranks.h"

namespace stoker {
namespace {

const std::map<std::string, OptimizerRecipe> kRecipes = {
    {"sgd", {.name = "sgd", .lr = 0.05}},
    {"sgd_decay", {.name = "sgd", .lr = 0.05, .weight_decay = 0.01}},
    {"sgd_momentum", {.name = "sgd", .lr = 0.02, .momentum = 0.9}},
    {"sgd_nesterov", {.name = "sgd", .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4}},
    {"adam", {.name = "adam", .lr = 1e-2}},
    {"adam_decay", {.name = "adam", .lr = 1e-2, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.05}},
    {"adamw", {.name = "adamw", .lr = 1e-2, .weight_decay = 0.1}},
    {"adamw_scaled",
     {.name = "adamw", .lr = 1e-2, .weight_decay = 0.1, .no_decay = {"bias"}, .lr_scales = {{"b*", 3}, {"*", 0.1}}}},
    {"sgd_scaled", {.name = "sgd", .lr = 0.02, .momentum = 0.9, .lr_scales = {{"conv", 0.5}}}},
};

at::Tensor normal(at::IntArrayRef shape, at::Generator& generator) {
    return at::empty(shape).normal_(0.0, 1.0, generator);
}

// Parameters and their optimiser; the gradients depend on the step only.
struct OptimizerTraining {
    OptimizerTraining(const OptimizerRecipe& recipe, OptimizerKernel kernel) {
        at::Generator generator = make_generator(3);
        parameters.push_back({"weight", normal({7, 5}, generator)});
        parameters.push_back({"bias", normal({5}, generator)});
        parameters.push_back({"conv", normal({3, 2, 2, 2}, generator)});
        optimizer.emplace(parameters, recipe, kernel);
    }

    // `skip` gets no gradient.
    void step(std::int64_t number, const std::string& skip = "") {
        at::Generator generator = make_generator(1000 + static_cast<std::uint64_t>(number));
        for (auto& [name, tensor] : parameters) {
            at::Tensor grad = normal(tensor.sizes(), generator).add_(tensor, 0.3);
            tensor.mutable_grad() = name == skip ? at::Tensor() : grad;
        }
        optimizer->set_lr(optimizer->lr() * 0.99);
        optimizer->step();
        optimizer->zero_grad();
    }

    std::vector<NamedTensor> parameters;
    std::optional<Optimizer> optimizer;
};

class OptimizerTest : public ::testing::TestWithParam<std::string> {
  protected:
    OptimizerRecipe recipe() const { return kRecipes.at(GetParam()); }
};

TEST_P(OptimizerTest, FusedAndSingleTensorStayTogetherOverAHundredSteps) {
    OptimizerTraining fused(recipe(), OptimizerKernel::fused);
    OptimizerTraining single(recipe(), OptimizerKernel::single_tensor);
    const at::Tensor start = fused.parameters[0].tensor.clone();
    for (std::int64_t i = 0; i < 100; ++i) {
        fused.step(i);
        single.step(i);
    }
    EXPECT_FALSE(at::allclose(start, fused.parameters[0].tensor, 1e-2, 1e-2)) << "nothing moved";
    for (std::size_t i = 0; i < fused.parameters.size(); ++i) {
        const at::Tensor difference = fused.parameters[i].tensor.sub(single.parameters[i].tensor).abs().max();
        EXPECT_TRUE(at::allclose(fused.parameters[i].tensor, single.parameters[i].tensor, 2e-6, 2e-6))
            << fused.parameters[i].name << ": " << difference.item().toFloat();
    }
    const auto fused_state = fused.optimizer->state();
    const auto single_state = single.optimizer->state();
    ASSERT_EQ(fused_state.size(), single_state.size());
    for (std::size_t i = 0; i < fused_state.size(); ++i) {
        EXPECT_EQ(fused_state[i].name, single_state[i].name);
        EXPECT_TRUE(at::allclose(fused_state[i].tensor, single_state[i].tensor, 1e-5, 1e-5)) << fused_state[i].name;
    }
}

TEST_P(OptimizerTest, StateAndLoadContinueBitForBit) {
    for (const OptimizerKernel kernel : {OptimizerKernel::fused, OptimizerKernel::single_tensor}) {
        OptimizerTraining whole(recipe(), kernel);
        for (std::int64_t i = 0; i < 10; ++i) {
            whole.step(i);
        }
        OptimizerTraining resumed(recipe(), kernel);
        for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
            resumed.parameters[i].tensor.copy_(whole.parameters[i].tensor);
        }
        resumed.optimizer->load(whole.optimizer->state());
        resumed.optimizer->set_lr(whole.optimizer->lr());
        for (std::int64_t i = 10; i < 20; ++i) {
            whole.step(i);
            resumed.step(i);
        }
        for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
            EXPECT_TRUE(at::equal(whole.parameters[i].tensor, resumed.parameters[i].tensor))
                << whole.parameters[i].name;
        }
    }
}

TEST_P(OptimizerTest, ParameterWithoutGradientStays) {
    for (const OptimizerKernel kernel : {OptimizerKernel::fused, OptimizerKernel::single_tensor}) {
        OptimizerTraining training(recipe(), kernel);
        training.step(0);
        const at::Tensor bias = training.parameters[1].tensor.clone();
        const at::Tensor weight = training.parameters[0].tensor.clone();
        std::map<std::string, at::Tensor> before;
        for (const auto& [name, tensor] : training.optimizer->state()) {
            before[name] = tensor.clone();
        }
        training.step(1, "bias");
        EXPECT_TRUE(at::equal(training.parameters[1].tensor, bias));
        EXPECT_FALSE(at::equal(training.parameters[0].tensor, weight));
        for (const auto& [name, tensor] : training.optimizer->state()) {
            EXPECT_EQ(at::equal(tensor, before[name]), name.ends_with(".bias")) << name;
        }
    }
}

TEST_P(OptimizerTest, AStepWithoutAnyGradientDoesNothing) {
    OptimizerTraining training(recipe(), OptimizerKernel::fused);
    const at::Tensor weight = training.parameters[0].tensor.clone();
    training.optimizer->step();
    EXPECT_TRUE(at::equal(training.parameters[0].tensor, weight));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerTest,
                         ::testing::Values("sgd", "sgd_decay", "sgd_momentum", "sgd_nesterov", "adam", "adam_decay",
                                           "adamw"),
                         [](const auto& test) { return test.param; });

TEST(Optimizer, ARateMovesItsParametersOnly) {
    const auto moved = [](const std::vector<LrScale>& scales) {
        OptimizerTraining training({.name = "sgd", .lr = 0.1, .lr_scales = scales}, OptimizerKernel::fused);
        std::vector<at::Tensor> before;
        for (const auto& [name, tensor] : training.parameters) {
            before.push_back(tensor.clone());
        }
        training.step(1);
        std::vector<at::Tensor> change;
        for (std::size_t i = 0; i < before.size(); ++i) {
            change.push_back(training.parameters[i].tensor.sub(before[i]));
        }
        return change;
    };
    const std::vector<at::Tensor> plain = moved({});
    const std::vector<at::Tensor> scaled = moved({{"weight", 0.25}, {"*t*", 8}});
    EXPECT_TRUE(at::allclose(scaled[0], plain[0].mul(0.25), 1e-4, 1e-6)) << "the first pattern counts";
    EXPECT_TRUE(at::allclose(scaled[1], plain[1])) << "no pattern matches bias";
    EXPECT_TRUE(at::allclose(scaled[2], plain[2])) << "nor conv";
}

TEST(Optimizer, StateOfAnotherOptimizerIsRefused) {
    OptimizerTraining sgd(kRecipes.at("sgd_momentum"), OptimizerKernel::fused);
    OptimizerTraining adam(kRecipes.at("adam"), OptimizerKernel::fused);
    EXPECT_THROW(adam.optimizer->load(sgd.optimizer->state()), InvalidArgument);
    EXPECT_THROW(sgd.optimizer->load(adam.optimizer->state()), InvalidArgument);
    OptimizerTraining plain(kRecipes.at("sgd"), OptimizerKernel::fused);
    EXPECT_THROW(plain.optimizer->load(adam.optimizer->state()), InvalidArgument)
        << "sgd without momentum lacks this state";
    auto state = adam.optimizer->state();
    state[1].tensor = at::empty({5, 7});
    EXPECT_THROW(adam.optimizer->load(state), InvalidArgument);
}

TEST(Optimizer, ZeroGradFreesTheGradients) {
    OptimizerTraining training(kRecipes.at("adam"), OptimizerKernel::fused);
    training.parameters[0].tensor.mutable_grad() = training.parameters[0].tensor.clone();
    training.optimizer->zero_grad();
    EXPECT_FALSE(training.parameters[0].tensor.grad().defined());
}

// What DDP holds on every rank, ranks that share the state hold once.
TEST(Optimizer, ShardsHoldTheStateOnce) {
    const std::int64_t elements = 300 * 200 + 200;
    for (const int ranks : {2, 4}) {
        EXPECT_THAT(testing::as_ranks(ranks,
                                      [=](const auto& group) {
                                          const std::vector<NamedTensor> parameters = {
                                              {"weight", at::empty({300, 200})}, {"bias", at::empty({200})}};
                                          const Optimizer optimizer(parameters, kRecipes.at("adam"),
                                                                    OptimizerKernel::fused, group.get());
                                          std::int64_t held = 0;
                                          for (const at::Tensor& tensor : optimizer.tensors()) {
                                              held += tensor.dim() == 0 ? 0 : tensor.numel();
                                          }
                                          EXPECT_LE(held, 2 * (elements / ranks + 64));
                                          std::array sum = {static_cast<double>(held)};
                                          group->all_reduce(sum);
                                          EXPECT_EQ(sum[0], 2 * elements);
                                      }),
                    ::testing::Each(""));
    }
}

}  // namespace
}  // namespace stoker
