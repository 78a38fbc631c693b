// Runs whose tensors go through NCCL: here through a stand-in that keeps its rules, on a machine with GPUs through NCCL
// itself.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "stoker/bridge/device.h"
#include "support/fake_nccl.h"
#include "train/run/rank_runs.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using testing::expect_alike;
using testing::expect_equal_ranks;
using ::testing::HasSubstr;
using testing::RankRuns;
using testing::small_recipe;
using testing::TempDir;
using testing::train_ranks;

struct NcclCase {
    const char* name;
    void (*change)(Recipe&);
    const char* call;        // which such a run makes
    std::int64_t least = 1;  // so many of them
};

void PrintTo(const NcclCase& given, std::ostream* out) {
    *out << given.name;
}

class NcclRuns : public ::testing::TestWithParam<NcclCase> {};

// The sum of two numbers has the same bits in either order.
TEST_P(NcclRuns, HaveTheWeightsOfGloo) {
    const auto& [name, change, call, least] = GetParam();
    Recipe recipe = small_recipe(2);
    change(recipe);
    const TempDir dir;
    train_ranks(recipe, 2, dir.path() / "gloo");
    testing::FakeNcclLibrary library;
    train_ranks(recipe, 2, dir.path() / "nccl", "", [](const Group& group) {
        group.use_device(at::kCPU, std::to_string(group.rank()));
        EXPECT_TRUE(group.uses_nccl());
    });
    EXPECT_GE(library.log.count(call), least);
    const auto checkpoints = checkpoints_in(dir.path() / "gloo/checkpoints");
    EXPECT_FALSE(checkpoints.empty());
    for (const auto& [step, checkpoint] : checkpoints) {
        for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
            EXPECT_TRUE(testing::text_of(checkpoint / file) ==
                        testing::text_of(dir.path() / "nccl/checkpoints" / std::to_string(step) / file))
                << "step " << step << ", " << file;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, NcclRuns,
    ::testing::Values(NcclCase{"plain", [](Recipe&) {}, "allreduce"},
                      NcclCase{"mixup", [](Recipe& recipe) { recipe.train.mixup = 0.4; }, "send"},
                      NcclCase{"bf16", [](Recipe& recipe) { recipe.train.compress_gradients = "bf16"; }, "allreduce"},
                      NcclCase{"shard", [](Recipe& recipe) { recipe.train.shard = "optimizer"; }, "allgather"},
                      NcclCase{"full_shard", [](Recipe& recipe) { recipe.train.shard = "full"; }, "reduce_scatter"},
                      NcclCase{"tensor_parallel", [](Recipe& recipe) { recipe.train.mesh.tp = 2; }, "allreduce"},
                      NcclCase{"pipeline",
                               [](Recipe& recipe) {
                                   recipe.model.hidden = {8, 8};
                                   recipe.train.mesh.pp = 2;
                                   recipe.train.accumulate = 4;
                               },
                               "send"},
                      NcclCase{"sync_batch_norm",
                               [](Recipe& recipe) {
                                   recipe.model.name = "convnet";
                                   recipe.data.drop_last = true;
                                   recipe.train.sync_batch_norm = true;
                               },
                               "allreduce", 200}),
    [](const auto& tested) { return tested.param.name; });

// A collective that has failed leaves wrong numbers, which must not be recorded.
TEST(NcclRun, EndsWithoutACheckpointWhereACollectiveHasFailed) {
    const auto plain = [](Recipe&) {};
    const auto stages = [](Recipe& recipe) {
        recipe.model.hidden = {8, 8};
        recipe.train.mesh.pp = 2;
        recipe.train.accumulate = 4;
    };
    const auto tensor = [](Recipe& recipe) { recipe.train.mesh.tp = 2; };
    for (void (*change)(Recipe&) : {+plain, +stages, +tensor}) {
        Recipe recipe = small_recipe(3);
        change(recipe);
        const TempDir dir;
        testing::FakeNcclLibrary library;
        const auto errors = as_ranks(2, [&](const std::shared_ptr<Group>& group) {
            group->use_device(at::kCPU, std::to_string(group->rank()));
            Trainer trainer(recipe, testing::odd_data(), nullptr, OptimizerKernel::fused, false, group);
            group->barrier();
            if (group->first()) {
                const std::lock_guard lock(library.log.mutex);
                library.log.good_calls = std::ssize(library.log.calls) + 4;
            }
            group->barrier();
            trainer.fit({.out = dir.path() / "run"});
        });
        EXPECT_THAT(errors, Each(HasSubstr("no answer from another rank for 20 s")));
        EXPECT_TRUE(checkpoints_in(dir.path() / "run/checkpoints").empty());
    }
}

class NcclRunsCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!pick_device("auto").is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }

    // Two ranks on the GPUs of this machine, and one on its CPU. Ranks that are threads cannot share a GPU: autograd
    // has one thread for each device, and one rank's reduction would wait there for the other's backward pass. The
    // kit's train-two-ranks has processes.
    static void compare(double mixup = 0) {
        Recipe recipe = small_recipe(2);
        recipe.train.mixup = mixup;
        recipe.train.precision = "fp32";
        recipe.train.deterministic = false;  // cuBLAS refuses it without CUBLAS_WORKSPACE_CONFIG
        const TempDir dir;
        recipe.device = "cpu";
        train_ranks(recipe, 1, dir.path() / "cpu");
        recipe.device = "cuda";
        const RankRuns run = train_ranks(recipe, 2, dir.path() / "gpus");
        EXPECT_THAT(testing::text_of(dir.path() / "gpus/metrics.jsonl"), HasSubstr(R"("collectives":"nccl")"));
        expect_alike(dir.path() / "cpu", dir.path() / "gpus", 1e-3);
        expect_equal_ranks(run);
    }
};

TEST_F(NcclRunsCuda, TwoRanksHaveTwoGpus) {
    if (pick_device("cuda", 1).index() == 0) {
        GTEST_SKIP() << "one GPU";
    }
    compare();
    compare(/*mixup=*/0.4);
}

}  // namespace
}  // namespace stoker
