// Stages that compute together, each on another rank: gradients, losses, messages and the activations held at once.
#include "stoker/train/step/pipeline_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <barrier>
#include <tuple>

#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;

constexpr std::int64_t kWidth = 3;

class PipelineSteps : public ::testing::TestWithParam<std::tuple<PipelineOrder, int, std::int64_t>> {};

// Stage s multiplies by a weight of s + 2; the loss is the sum. Its input is the number of the micro-batch plus 1.
TEST_P(PipelineSteps, PassActivationsForwardAndGradientsBack) {
    const auto [order, stages, parts] = GetParam();
    const std::int64_t samples = 3 * parts + 1;  // micro-batches of different sizes
    EXPECT_THAT(
        as_ranks(
            stages,
            [&, order = order, stages = stages, parts = parts](const auto& group) {
                const StageBoundary boundary{.shape = {kWidth}};
                Account account;
                PipelineStep pipeline({.stages = group.get(), .order = order, .shapes = {boundary, boundary}}, account);
                const at::Tensor weight = at::full({}, static_cast<float>(group->rank() + 2)).requires_grad_();
                const auto size = [&](std::int64_t part) {
                    return micro_batch_begin(samples, part + 1, parts) - micro_batch_begin(samples, part, parts);
                };
                std::int64_t held = 0;
                std::int64_t most_held = 0;
                pipeline.run(
                    samples, parts,
                    {.forward =
                         [&](std::int64_t part, const at::Tensor& input) {
                             EXPECT_EQ(input.defined(), !group->first());
                             most_held = std::max(most_held, ++held);
                             const at::Tensor x =
                                 input.defined() ? input : at::full({size(part), kWidth}, static_cast<float>(part + 1));
                             EXPECT_EQ(x.size(0), size(part));
                             const at::Tensor y = x.mul(weight);
                             return pipeline.last() ? y.sum() : y;
                         },
                     .backward =
                         [&](std::int64_t, const at::Tensor& output, const at::Tensor& gradient) {
                             EXPECT_EQ(gradient.defined(), !pipeline.last());
                             output.backward(gradient);
                             --held;
                         }});
                double expected = 0;  // the sum of all inputs times the weights of the other stages
                for (std::int64_t part = 0; part < parts; ++part) {
                    expected += static_cast<double>(size(part) * kWidth * (part + 1));
                }
                for (int stage = 0; stage < stages; ++stage) {
                    expected *= stage == group->rank() ? 1 : stage + 2;
                }
                EXPECT_DOUBLE_EQ(weight.grad().template item<float>(), expected);
                EXPECT_EQ(most_held, most_in_flight(order, group->rank(), stages, parts));
                EXPECT_EQ(pipeline.most_in_flight(), most_held);
                const std::optional<double> idle = pipeline.take_idle_share();
                ASSERT_TRUE(idle);
                EXPECT_GE(*idle, 0);
                EXPECT_LE(*idle, 1);
                EXPECT_FALSE(pipeline.take_idle_share()) << "nothing ran since";
            }),
        Each(""));
}

INSTANTIATE_TEST_SUITE_P(Each, PipelineSteps,
                         ::testing::Combine(::testing::Values(PipelineOrder::one_forward_one_backward,
                                                              PipelineOrder::gpipe),
                                            ::testing::Values(2, 3, 4), ::testing::Values(1, 2, 3, 7)));

TEST(StageLinks, RefuseWhatTheOtherSideDoesNotExpect) {
    const StageBoundary boundary{.shape = {2, 3}};
    const auto refusal = [&](const at::Tensor& sent) {
        std::barrier both(2);
        return as_ranks(2, [&](const auto& group) {
            both.arrive_and_wait();
            StageLinks links(*group, {boundary, boundary});
            if (links.first()) {
                links.send_output(sent);
            }
        })[0];
    };
    const std::string expected = "[the message of stage 0 to stage 1] expected Float (samples, 2, 3), got ";
    EXPECT_EQ(refusal(at::ones({4, 3, 2})), expected + "Float (samples, 3, 2)");
    EXPECT_EQ(refusal(at::ones({4, 2, 3}, at::kHalf)), expected + "Half (samples, 2, 3)");
    EXPECT_EQ(refusal(at::ones({})), expected + "a scalar");
}

// Images stay channels-last, and a micro-batch may have no samples.
TEST(StageLinks, KeepTypeAndLayout) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             const StageBoundary boundary{
                                 .shape = {2, 3, 4}, .type = at::kBFloat16, .format = at::MemoryFormat::ChannelsLast};
                             StageLinks links(*group, {boundary, boundary});
                             at::Tensor sent = at::ones({5, 2, 3, 4}, at::kBFloat16).cumsum(3);
                             for (const std::int64_t samples : {5, 0, 5}) {
                                 const at::Tensor part = sent.narrow(0, 0, samples);
                                 if (links.first()) {
                                     links.send_output(part);
                                     EXPECT_TRUE(at::equal(links.receive_gradient(samples), part.mul(2)));
                                 } else {
                                     const at::Tensor got = links.receive_input(samples);
                                     EXPECT_TRUE(at::equal(got, part));
                                     EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
                                     links.send_gradient(got.mul(2));
                                 }
                             }
                             links.flush();
                         }),
                Each(""));
}

}  // namespace
}  // namespace stoker
