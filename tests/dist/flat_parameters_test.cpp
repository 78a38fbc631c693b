// Parameters that have memory only between unshard and reshard, with what autograd saves of them.
#include "stoker/dist/flat_parameters.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <array>
#include <numeric>

#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;

at::Tensor wave(at::IntArrayRef sizes, double first) {
    const std::int64_t count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
    return at::arange(count, at::kFloat).mul(0.01).add(first).sin().view(sizes);
}

// A convolution, a linear layer and a scalar; one of them is in another order in memory.
std::vector<at::Tensor> mixed_parameters() {
    std::vector<at::Tensor> all = {wave({8, 3, 5, 5}, 1).contiguous(at::MemoryFormat::ChannelsLast), wave({10, 200}, 2),
                                   wave({10}, 3), wave({}, 4)};
    for (at::Tensor& parameter : all) {
        parameter.requires_grad_(true);
    }
    return all;
}

TEST(FlatElements, ArePaddedToWholeShards) {
    const std::array<std::int64_t, 3> sizes = {600, 2000, 1};
    EXPECT_EQ(flat_elements(sizes, 1), 640 + 2048 + 64);
    EXPECT_EQ(flat_elements(sizes, 4), 2816) << "a multiple of 4 * 64";
    EXPECT_EQ(flat_elements(std::array<std::int64_t, 1>{1}, 3), 3 * 64);
}

TEST(FlatParameters, ThePiecesOfAllRanksAreAllElements) {
    for (const int ranks : {2, 3, 4}) {
        EXPECT_THAT(as_ranks(ranks,
                             [](const auto& group) {
                                 const FlatParameters flat(*group, mixed_parameters());
                                 const std::vector<at::Tensor> whole = mixed_parameters();
                                 std::vector<std::int64_t> ends(whole.size());
                                 for (const auto& pieces : flat.pieces()) {
                                     for (const ParameterPiece& piece : pieces) {
                                         EXPECT_EQ(piece.begin, ends[piece.parameter]);
                                         EXPECT_EQ(piece.begin % kPieceAlignment, 0);
                                         ends[piece.parameter] = piece.end;
                                     }
                                 }
                                 for (std::size_t i = 0; i < whole.size(); ++i) {
                                     EXPECT_EQ(ends[i], whole[i].numel());
                                 }
                                 const auto& mine = flat.pieces()[static_cast<std::size_t>(group->rank())];
                                 for (std::size_t i = 0; i < mine.size(); ++i) {
                                     EXPECT_TRUE(at::equal(flat.own()[i],
                                                           ParameterShards::part(whole[mine[i].parameter], mine[i])));
                                 }
                             }),
                    Each(""));
    }
}

TEST(FlatParameters, HaveMemoryOnlyWhileTheyAreUnsharded) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             std::vector<at::Tensor> given = mixed_parameters();
                             FlatParameters flat(*group, given);
                             const auto bytes = [&] { return given[0].storage().nbytes(); };
                             EXPECT_EQ(bytes(), 0U);
                             EXPECT_THROW(given[0].add(1), c10::Error) << "freed memory is not read";
                             for (int round = 0; round < 2; ++round) {
                                 flat.unshard();
                                 EXPECT_EQ(bytes(), 3 * flat.shard().nbytes());
                                 const std::vector<at::Tensor> expected = mixed_parameters();
                                 for (std::size_t i = 0; i < given.size(); ++i) {
                                     EXPECT_TRUE(at::equal(given[i], expected[i]));
                                     EXPECT_EQ(given[i].strides(), expected[i].strides());
                                 }
                                 const at::Tensor view = given[1].view({-1});
                                 flat.reshard();
                                 EXPECT_EQ(bytes(), 0U);
                                 EXPECT_EQ(view.storage().nbytes(), 0U) << "freed under the views";
                             }
                             flat.start_unshard();
                             flat.reshard();  // while the gather is under way
                             EXPECT_EQ(bytes(), 0U);
                         }),
                Each(""));
}

// (N, 10) of images (N, 3, 8, 8) whose pixels the convolution makes (N, 8, 5, 5).
at::Tensor outputs(const std::vector<at::Tensor>& p, const at::Tensor& images) {
    const at::Tensor features = at::conv2d(images, p[0], {}, 1, 1).slice(2, 0, 5).slice(3, 0, 5);  // (N, 8, 5, 5)
    return at::linear(features.flatten(1), p[1], p[2]).mul(p[3]);
}

// Autograd saves weights and views of them. They are freed after the forward pass, and the memory that the next gather
// allocates is that which the backward pass reads, at whatever address it lies.
TEST(FlatParameters, GradientsAreThoseOfWholeParameters) {
    for (const int ranks : {2, 3, 4}) {
        EXPECT_THAT(
            as_ranks(ranks,
                     [ranks](const auto& group) {
                         const at::Tensor images = wave({2 * ranks, 3, 8, 8}, 5);
                         std::vector<at::Tensor> whole = mixed_parameters();
                         outputs(whole, images).square().sum().backward();
                         std::vector<at::Tensor> given = mixed_parameters();
                         FlatParameters flat(*group, given);
                         for (int round = 0; round < 2; ++round) {  // the second adds up, as micro-batches do
                             flat.unshard();
                             const at::Tensor loss =
                                 outputs(given, images.narrow(0, 2 * group->rank(), 2)).square().sum();
                             flat.reshard();
                             const at::Tensor other = at::randn({1 << 20});  // takes the memory that was freed
                             flat.unshard();
                             loss.backward();
                             flat.reshard();
                             flat.start_reduce(/*zeros=*/false, std::nullopt);
                             EXPECT_FALSE(given[0].grad().defined()) << "freed when it is packed";
                             flat.finish_reduce();
                         }
                         const auto& mine = flat.pieces()[static_cast<std::size_t>(group->rank())];
                         for (std::size_t i = 0; i < mine.size(); ++i) {
                             const at::Tensor& parameter = whole[mine[i].parameter];
                             const at::Tensor expected = ParameterShards::part(
                                 ParameterShards::laid_out_like(parameter.grad(), parameter), mine[i]);
                             const double most = parameter.grad().abs().max().template item<double>();
                             EXPECT_TRUE(at::allclose(flat.own()[i].grad(), expected.mul(2.0 / ranks), 1e-5,
                                                      1e-6 * most));  // sums that cancel are rounded as their terms
                         }
                         flat.zero_grad();
                         EXPECT_FALSE(flat.has_gradient());
                     }),
            Each(""));
    }
}

// A rank without samples takes part with zeros, and gradients may be sent in another type, whose rounding shows it.
TEST(FlatParameters, ZerosCountAsGradients) {
    constexpr double kGradient = 1 + 1. / 1024;
    for (const auto type : {at::kFloat, at::kBFloat16}) {
        EXPECT_THAT(as_ranks(2,
                             [&](const auto& group) {
                                 std::vector<at::Tensor> given = mixed_parameters();
                                 FlatParameters flat(*group, given);
                                 for (at::Tensor& parameter : given) {
                                     parameter.mutable_grad() = at::full(parameter.sizes(), kGradient);
                                 }
                                 flat.start_reduce(/*zeros=*/group->first(), type);
                                 flat.finish_reduce();
                                 for (const at::Tensor& piece : flat.own()) {
                                     EXPECT_EQ(piece.grad().scalar_type(), at::kFloat);
                                     const double mean = type == at::kFloat ? kGradient / 2 : 0.5;
                                     EXPECT_TRUE(piece.grad().eq(mean).all().template item<bool>()) << type;
                                 }
                             }),
                    Each(""));
    }
}

}  // namespace
}  // namespace stoker
