// When parameters are there, and when they are on their way: the order of gathers, passes and reductions.
#include "stoker/train/step/fully_sharded_model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "stoker/models/init.h"
#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using ::testing::HasSubstr;

// Three linear layers; the second is frozen. Both hooks get the number of the layer that computes.
class ThreeLayers final : public Model {
  public:
    ThreeLayers() {
        at::Generator generator = make_generator(1);
        for (std::size_t i = 0; i < 3; ++i) {
            layers_.push_back(parameter("layer" + std::to_string(i), default_uniform({8, 8}, 8, generator)));
        }
        layers_[1].requires_grad_(false);
    }
    at::Tensor forward(const at::Tensor& input) override { return run(2, run(1, run(0, input))); }
    std::vector<ModelBlock> blocks() const override {
        std::vector<ModelBlock> all;
        for (std::size_t i = 0; i < 3; ++i) {
            all.push_back({.name = "block" + std::to_string(i),
                           .tensors = {"layer" + std::to_string(i) + (wide_first && i == 0 ? "*" : "")},
                           .forward = [this, i](const at::Tensor& x) { return run(i, x); }});
        }
        return all;
    }

    void add_parameter(const std::string& name, const at::Tensor& value) { parameter(name, value); }
    void freeze_first() { layers_[0].requires_grad_(false); }
    // The last layer has the first one's weights.
    void tie_last() {
        layers_[2] = layers_[0];
        parameter("tied", layers_[0]);
    }
    std::size_t outputs_alive() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(outputs_, [](const auto& output) { return !output.expired(); }));
    }

    bool wide_first = false;  // the first block has all parameters whose names begin with layer0
    std::function<void(std::size_t layer)> in_forward;
    std::function<void(std::size_t layer)> in_backward;

  private:
    at::Tensor run(std::size_t layer, const at::Tensor& x) const {
        if (in_forward) {
            in_forward(layer);
        }
        const at::Tensor y = at::linear(x, layers_[layer]).tanh();
        if (in_backward && y.requires_grad()) {
            y.register_hook([this, layer](const at::Tensor&) { in_backward(layer); });
        }
        outputs_.emplace_back(y.getIntrusivePtr());
        return y;
    }

    std::vector<at::Tensor> layers_;
    mutable std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> outputs_;
};

DeviceBatch batch_of_two() {
    DeviceBatch batch;
    batch.input = at::arange(16, at::kFloat).mul(0.1).view({2, 8});
    return batch;
}

bool readable(const at::Tensor& parameter) {
    try {
        parameter.sum();
        return true;
    } catch (const c10::Error&) {
        return false;
    }
}

// The parameters that can be read, as "012".
std::string readable_layers(const Model& model) {
    std::string layers;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
        layers += readable(model.parameters()[i].tensor) ? std::to_string(i) : "";
    }
    return layers;
}

TEST(FullyShardedModel, ABlocksParametersAreThereForItsPasses) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             ThreeLayers model;
                             FullyShardedModel full(model, *group);
                             EXPECT_EQ(readable_layers(model), "");
                             std::vector<std::string> seen;
                             model.in_forward = model.in_backward = [&](std::size_t layer) {
                                 EXPECT_EQ(readable_layers(model), std::to_string(layer));
                                 seen.push_back(std::to_string(layer));
                             };
                             const at::Tensor loss = full.outputs(batch_of_two()).square().sum();
                             EXPECT_EQ(readable_layers(model), "2") << "the backward pass begins with it";
                             full.backward(loss, {});
                             EXPECT_EQ(readable_layers(model), "");
                             EXPECT_EQ(seen, (std::vector<std::string>{"0", "1", "2", "2", "1", "0"}));
                             const c10::InferenceMode inference;
                             full.outputs(batch_of_two());
                             EXPECT_EQ(readable_layers(model), "") << "no backward pass follows an evaluation";
                         }),
                Each(""));
}

// Rank 0 does not leave a block's pass before rank 1 is in the next one, which needs rank 0's shard of it.
TEST(FullyShardedModel, TheNextBlockIsGatheredMeanwhile) {
    std::promise<void> in_layer_1;
    std::promise<void> back_in_layer_0;
    const auto wait = [](std::promise<void>& other) {
        EXPECT_EQ(other.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    };
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             ThreeLayers model;
                             FullyShardedModel full(model, *group);
                             model.in_forward = [&](std::size_t layer) {
                                 if (group->first() && layer == 0) {
                                     wait(in_layer_1);
                                 } else if (!group->first() && layer == 1) {
                                     in_layer_1.set_value();
                                 }
                             };
                             model.in_backward = [&](std::size_t layer) {
                                 if (group->first() && layer == 1) {
                                     wait(back_in_layer_0);
                                 } else if (!group->first() && layer == 0) {
                                     back_in_layer_0.set_value();
                                 }
                             };
                             full.backward(full.outputs(batch_of_two()).square().sum(), {});
                         }),
                Each(""));
}

// A rank without samples makes the same exchanges, and counts with zeros.
TEST(FullyShardedModel, ARankWithoutSamplesTakesPart) {
    ThreeLayers one;
    one.forward(batch_of_two().input).square().sum().backward();
    EXPECT_THAT(as_ranks(3,
                         [&](const auto& group) {
                             ThreeLayers model;
                             FullyShardedModel full(model, *group);
                             if (group->rank() == 1) {
                                 full.backward(full.outputs(batch_of_two()).square().sum(), {});
                             } else {
                                 full.forward_without_samples();
                                 full.backward_without_samples();
                             }
                             EXPECT_TRUE(full.has_gradients());
                             const ParameterShards shards = full.trained_pieces();
                             const std::vector<NamedTensor> trained = one.trainable_parameters();
                             ASSERT_EQ(full.trained().size(), shards.own().size());
                             for (std::size_t i = 0; i < shards.own().size(); ++i) {
                                 const ParameterPiece& piece = shards.own()[i];
                                 const at::Tensor whole = trained[piece.parameter].tensor.grad();
                                 EXPECT_TRUE(at::allclose(full.trained()[i].grad(),
                                                          ParameterShards::part(whole, piece).div(3)));
                             }
                             full.zero_grad();
                             EXPECT_FALSE(full.has_gradients());
                         }),
                Each(""));
}

// An error of a user's loss or layer on every rank, at any moment of a step: what follows computes with the weights
// that are loaded, and adds to no old gradient.
TEST(FullyShardedModel, NothingIsLeftOfAStepThatFailed) {
    for (const int failing : {0, 2, 3, 4, 5}) {  // calls: layers 0 to 2 forward, then backward
        EXPECT_THAT(
            as_ranks(2,
                     [&](const auto& group) {
                         ThreeLayers model;
                         FullyShardedModel full(model, *group);
                         int calls = 0;
                         model.in_forward = model.in_backward = [&](std::size_t) {
                             if (calls++ == failing) {
                                 throw std::runtime_error("the user's");
                             }
                         };
                         EXPECT_THROW(full.backward(full.outputs(batch_of_two()).square().sum(), {}),
                                      std::runtime_error);
                         model.in_forward = model.in_backward = nullptr;
                         ThreeLayers other;
                         for (const NamedTensor& entry : other.state()) {
                             entry.tensor.detach().mul_(-2);
                         }
                         full.load(other.state(), "a test");
                         const at::Tensor outputs = full.outputs(batch_of_two());
                         EXPECT_TRUE(at::allclose(outputs, other.forward(batch_of_two().input)));
                         EXPECT_FALSE(full.has_gradients());
                         full.backward(outputs.square().sum(), {});
                         other.forward(batch_of_two().input).square().sum().backward();
                         const std::vector<NamedTensor> trained = other.trainable_parameters();
                         const ParameterShards shards = full.trained_pieces();
                         for (std::size_t i = 0; i < full.trained().size(); ++i) {
                             const ParameterPiece& piece = shards.own()[i];
                             const at::Tensor whole = trained[piece.parameter].tensor.grad();
                             EXPECT_TRUE(at::allclose(full.trained()[i].grad(), ParameterShards::part(whole, piece)));
                         }
                     }),
            Each(""))
            << failing;
    }
}

TEST(FullyShardedModel, KeepsNothingOfFrozenBlocksBeforeTheFirstTrainedOne) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             ThreeLayers model;
                             model.freeze_first();
                             FullyShardedModel full(model, *group);
                             full.backward(full.outputs(batch_of_two()).square().sum(), {});
                             EXPECT_TRUE(full.has_gradients());
                             EXPECT_EQ(model.outputs_alive(), 0U);
                             const at::Tensor outputs = full.outputs(batch_of_two());
                             EXPECT_EQ(model.outputs_alive(), 1U) << "the returned one";
                             full.backward(outputs.square().sum(), {});
                         }),
                Each(""));
}

// Weights that two blocks share are there for both: the model is one block.
TEST(FullyShardedModel, AModelWithTiedWeightsIsOneBlock) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             ThreeLayers model;
                             model.tie_last();
                             const at::Tensor expected = model.forward(batch_of_two().input).detach();
                             FullyShardedModel full(model, *group);
                             EXPECT_TRUE(at::allclose(full.outputs(batch_of_two()).detach(), expected));
                         }),
                Each(""));
}

TEST(FullyShardedModel, WhatACheckpointCannotHaveIsRefusedBeforeTraining) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             ThreeLayers model;
                             model.add_parameter("layer3", at::ones({4}, at::kHalf));
                             FullyShardedModel full(model, *group);
                         }),
                Each(HasSubstr("[train.shard] expected each parameter in one of the model's blocks (Model::blocks), "
                               "got layer3 in 0")));
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             ThreeLayers model;
                             model.add_parameter("layer0b", at::ones({4}, at::kHalf));
                             model.wide_first = true;
                             FullyShardedModel full(model, *group);
                         }),
                Each(HasSubstr("[train.shard] expected parameters of one type")));
}

TEST(FullyShardedModel, AWholeStateIsDividedAndGathered) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             ThreeLayers model;
                             FullyShardedModel full(model, *group);
                             ThreeLayers other;
                             for (const NamedTensor& entry : other.state()) {
                                 entry.tensor.detach().mul_(3).add_(1);
                             }
                             full.load(other.state(), "a test");
                             const std::vector<NamedTensor> whole = full.gather(full.state());
                             if (group->first()) {
                                 ASSERT_EQ(whole.size(), 3U);
                                 for (std::size_t i = 0; i < whole.size(); ++i) {
                                     EXPECT_EQ(whole[i].name, other.state()[i].name);
                                     EXPECT_TRUE(at::equal(whole[i].tensor, other.state()[i].tensor));
                                 }
                             }
                             full.load({}, "nothing");
                         }),
                Each(HasSubstr("layer0")));
}

}  // namespace
}  // namespace stoker
