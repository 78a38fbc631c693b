// Elements of parameters divided among ranks, and brought together again.
#include "stoker/dist/parameter_shards.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <numeric>

#include "stoker/base/error.h"
#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using ::testing::HasSubstr;

std::int64_t size_of(const std::vector<ParameterPiece>& pieces) {
    std::int64_t size = 0;
    for (const ParameterPiece& piece : pieces) {
        size += piece.end - piece.begin;
    }
    return size;
}

TEST(DivideParameters, GivesEachElementToOneRank) {
    const std::vector<std::vector<std::int64_t>> models = {
        {1}, {64, 1}, {1000, 3, 1, 70000}, {5, 5, 5, 5, 5}, {1, 1 << 20, 10}, {1 << 20, 0, 1 << 20}};
    for (const auto& sizes : models) {
        const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
        for (const int ranks : {1, 2, 3, 4, 7, 64}) {
            const auto pieces = divide_parameters(sizes, ranks);
            std::size_t parameter = 0;
            std::int64_t end = 0;
            for (const auto& own : pieces) {
                EXPECT_LE(size_of(own), all / ranks + 1 + 64) << "evenly";
                for (const ParameterPiece& piece : own) {
                    while (end == sizes[parameter]) {
                        end = 0;
                        ++parameter;
                    }
                    EXPECT_EQ(piece.parameter, parameter);
                    EXPECT_EQ(piece.begin, end);
                    EXPECT_EQ(piece.begin % 64, 0);
                    EXPECT_GT(piece.end, piece.begin);
                    end = piece.end;
                }
            }
            EXPECT_EQ(parameter, static_cast<std::size_t>(std::ssize(sizes) - 1));
            EXPECT_EQ(end, sizes.back());
        }
    }
}

// One of them is in another order in memory.
std::vector<at::Tensor> parameters(float value) {
    return {at::zeros({70, 3}).add_(value), at::zeros({}).add_(value),
            at::zeros({8, 3, 5, 5}).add_(value).contiguous(at::MemoryFormat::ChannelsLast)};
}

at::Tensor numbered(const at::Tensor& like) {
    at::Tensor numbers = at::empty_like(like);
    return numbers.copy_(at::arange(like.numel(), at::kFloat).view(like.sizes()));
}

TEST(ParameterShards, GatherTheOwnersElements) {
    for (const int ranks : {2, 3, 4}) {
        EXPECT_THAT(as_ranks(ranks,
                             [](const auto& group) {
                                 std::vector<at::Tensor> wholes = parameters(-1);
                                 const ParameterShards shards(*group, wholes);
                                 std::vector<at::Tensor> own;
                                 for (const ParameterPiece& piece : shards.own()) {
                                     const at::Tensor values = numbered(wholes[piece.parameter]);
                                     ParameterShards::part(wholes[piece.parameter], piece)
                                         .copy_(ParameterShards::part(values, piece));
                                     own.push_back(ParameterShards::part(values, piece));
                                 }
                                 shards.all_gather(wholes);
                                 for (const at::Tensor& whole : wholes) {
                                     EXPECT_TRUE(at::equal(whole, numbered(whole)));
                                 }
                                 const std::vector<at::Tensor> gathered = shards.gather(own);
                                 EXPECT_EQ(gathered.size(), group->first() ? wholes.size() : 0);
                                 for (std::size_t i = 0; i < gathered.size(); ++i) {
                                     EXPECT_TRUE(at::equal(gathered[i], wholes[i]));
                                 }
                             }),
                    Each(""));
    }
}

TEST(ParameterShards, TakeParametersOfOneTypeWithoutGaps) {
    EXPECT_THAT(
        as_ranks(2,
                 [](const auto& group) {
                     const ParameterShards shards(*group, {at::zeros({4, 4}), at::zeros({4, 4}).select(1, 0)});
                 }),
        Each(HasSubstr("[train.shard] expected parameters of one type, without gaps in memory, got Float [4]")));
}

}  // namespace
}  // namespace stoker
