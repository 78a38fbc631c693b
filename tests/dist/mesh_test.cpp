// Sub-groups of ranks, and the mesh that they form.
#include "stoker/dist/mesh.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <array>
#include <atomic>

#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mesh, RanksOfOneCopyAreNeighbours) {
    EXPECT_THAT(as_ranks(6,
                         [](const auto& world) {
                             const Mesh mesh = make_mesh(world, {.dp = 2, .tp = 3});
                             EXPECT_EQ(mesh.tensor->size(), 3);
                             EXPECT_EQ(mesh.data->size(), 2);
                             EXPECT_EQ(mesh.tensor->rank(), world->rank() % 3);
                             EXPECT_EQ(mesh.data->rank(), world->rank() / 3);
                             const int first = world->rank() / 3 * 3;
                             std::array sum = {static_cast<double>(world->rank())};
                             mesh.tensor->all_reduce(sum);
                             EXPECT_EQ(sum[0], 3 * first + 3);
                             const at::Tensor value = at::full({2}, world->rank());
                             mesh.data->broadcast({value});
                             EXPECT_EQ(value[0].template item<int>(), world->rank() % 3);
                         }),
                Each(""));
}

TEST(Mesh, StagesOfACopyAreNeighbours) {
    EXPECT_THAT(as_ranks(8,
                         [](const auto& world) {
                             const Mesh mesh = make_mesh(world, {.dp = 2, .pp = 2, .tp = 2});
                             const auto ranks_of = [&](const Group& group) {
                                 const at::Tensor all = group.all_gather(at::full({}, world->rank(), at::kInt));
                                 const int* first = all.template const_data_ptr<int>();
                                 return std::vector<int>(first, first + all.numel());
                             };
                             const int rank = world->rank();
                             const int copy = rank / 4 * 4;
                             EXPECT_THAT(ranks_of(*mesh.tensor), ElementsAre(rank / 2 * 2, rank / 2 * 2 + 1));
                             EXPECT_THAT(ranks_of(*mesh.pipeline), ElementsAre(copy + rank % 2, copy + 2 + rank % 2));
                             EXPECT_THAT(ranks_of(*mesh.data), ElementsAre(rank % 4, rank % 4 + 4));
                             EXPECT_THAT(ranks_of(*mesh.figures),
                                         ElementsAre(rank % 2, rank % 2 + 2, rank % 2 + 4, rank % 2 + 6));
                         }),
                Each(""));
}

TEST(Mesh, OfOneCopyHasItsStagesFigures) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& world) {
                             const Mesh mesh = make_mesh(world, {.dp = {}, .pp = 3});
                             EXPECT_TRUE(mesh.data->alone() && mesh.tensor->alone());
                             EXPECT_EQ(mesh.figures, mesh.pipeline);
                             EXPECT_EQ(mesh.pipeline->size(), 3);
                             world->barrier();  // another may still connect
                         }),
                Each(""));
    EXPECT_THAT(
        as_ranks(3, [](const auto& world) { make_mesh(world, {.dp = {}, .pp = 2}); }),
        Each(HasSubstr("[train.mesh] expected a multiple of 2 processes for dp = auto, pp = 2, tp = 1, got 3")));
}

TEST(Mesh, WithoutTensorParallelismAllRanksShareTheData) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& world) {
                             const Mesh mesh = make_mesh(world, {});
                             EXPECT_EQ(mesh.data, world) << "nothing is connected twice";
                             EXPECT_TRUE(mesh.tensor->alone());
                         }),
                Each(""));
    EXPECT_TRUE(make_mesh(std::make_shared<Group>(), {}).data->alone());
}

// A second mesh of the same ranks must not read the addresses of the first.
TEST(Mesh, CanBeMadeAgain) {
    EXPECT_THAT(as_ranks(4,
                         [](const auto& world) {
                             for (const std::int64_t tp : {2, 4, 2}) {
                                 const Mesh mesh = make_mesh(world, {.dp = {}, .tp = tp});
                                 std::array ones = {1.0};
                                 mesh.tensor->all_reduce(ones);
                                 EXPECT_EQ(ones[0], tp);
                                 EXPECT_EQ(mesh.data->alone(), tp == 4);
                             }
                         }),
                Each(""));
}

TEST(Mesh, OtherNumbersOfRanksAreRefused) {
    EXPECT_THAT(as_ranks(3, [](const auto& world) { make_mesh(world, {.dp = {}, .tp = 2}); }),
                Each(HasSubstr("[train.mesh] expected a multiple of 2 processes for dp = auto, tp = 2, got 3")));
    EXPECT_THAT(as_ranks(2, [](const auto& world) { make_mesh(world, {.dp = 2, .tp = 2}); }),
                Each(HasSubstr("[train.mesh] expected 4 processes for dp = 2, tp = 2, got 2; `stoker launch "
                               "--nproc-per-node 4` gives as many")));
    EXPECT_THAT(
        as_ranks(2, [](const auto& world) { make_mesh(world, {.dp = {}, .tp = 1 + world->rank()}); }),
        Each(HasSubstr("[train.mesh] expected dp = auto, tp = 1, as on rank 0, got dp = auto, tp = 2 on rank 1")));
}

// The message names the rank of the run, and the reason that the lost rank left in the run's store.
TEST(Mesh, ALostRankIsNamed) {
    const auto errors = as_ranks(4, [](const auto& world) {
        const Mesh mesh = make_mesh(world, {.dp = {}, .tp = 2});
        if (world->rank() == 2) {
            return;
        }
        std::array value = {1.0};
        mesh.tensor->all_reduce(value);
    });
    EXPECT_THAT(errors, ElementsAre("", "", "", HasSubstr("[rank 3] expected all 4 ranks to continue")));
}

}  // namespace
}  // namespace stoker
