// Whole runs on a real GPU, compared with runs on the CPU and with runs that were stopped.
#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stoker/base/cuda_device.h"
#include "train/support.h"

namespace stoker {
namespace {

class TrainerCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!pick_device("auto").is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }

    static Recipe on(const char* device) {
        Recipe recipe = testing::every(2, /*epochs=*/false);
        recipe.device = device;
        recipe.train.precision = "fp32";
        recipe.train.deterministic = false;  // some operators have no such kernel
        return recipe;
    }
};

void expect_close(const testing::Outcome& a, const testing::Outcome& b) {
    ASSERT_EQ(a.weights.size(), b.weights.size());
    for (std::size_t i = 0; i < a.weights.size(); ++i) {
        EXPECT_TRUE(at::allclose(a.weights[i].tensor.cpu(), b.weights[i].tensor.cpu(), 1e-3, 1e-4))
            << a.weights[i].name;
    }
    ASSERT_EQ(a.result.epochs.size(), b.result.epochs.size());
    for (std::size_t i = 0; i < a.result.epochs.size(); ++i) {
        EXPECT_NEAR(a.result.epochs[i].train_loss, b.result.epochs[i].train_loss, 1e-3);
        EXPECT_NEAR(a.result.epochs[i].val_loss.value(), b.result.epochs[i].val_loss.value(), 1e-3);
        EXPECT_NEAR(a.result.epochs[i].val_accuracy.value(), b.result.epochs[i].val_accuracy.value(), 0.03);
    }
}

TEST_F(TrainerCuda, TrainsAndEvaluatesAsTheCpu) {
    const testing::TempDir folder;
    const testing::Outcome cpu = testing::live(on("cpu"), folder / "cpu");
    const testing::Outcome gpu = testing::live(on("cuda"), folder / "gpu");
    EXPECT_EQ(gpu.result.compiled, cuda_built() ? "graph, fused" : "graph");
    expect_close(gpu, cpu);
}

TEST_F(TrainerCuda, DeterministicRunsNeedNoSettingOfTheEnvironment) {
    const testing::TempDir folder;
    Recipe recipe = on("cuda");
    recipe.train.deterministic = true;
    recipe.train.compile = "none";  // cuBLAS multiplies, and not the fused kernels
    const testing::Outcome first = testing::live(recipe, folder / "first");
    const testing::Outcome second = testing::live(recipe, folder / "second");
    EXPECT_EQ(first.result.epochs.back().train_loss, second.result.epochs.back().train_loss);
}

// The order, the draws and the keys are those of the ordinary loader, and so are the figures.
TEST_F(TrainerCuda, ImagesOnTheDeviceGiveTheSameRun) {
    if (!cuda_built()) {
        GTEST_SKIP() << "built without nvcc";
    }
    const testing::TempDir folder;
    Recipe recipe = on("cuda");
    const testing::Outcome plain = testing::live(recipe, folder / "plain");
    recipe.data.cache = "device";
    const testing::Outcome own = testing::live(recipe, folder / "own");
    EXPECT_EQ(own.result.compiled, "graph, fused");
    expect_close(own, plain);
}

TEST_F(TrainerCuda, AStoppedRunEndsAsAnUnbrokenOne) {
    const testing::TempDir folder;
    const testing::Outcome unbroken = testing::live(on("cuda"), folder / "unbroken");
    for (const std::int64_t stop_at : {1, 6, 7, 9}) {  // before the graph, in the small last batch, and after both
        SCOPED_TRACE(stop_at);
        const std::string run = folder / fmt::to_string(stop_at);
        testing::live(on("cuda"), run, stop_at);
        expect_close(testing::live(on("cuda"), run), unbroken);
    }
}

TEST_F(TrainerCuda, TheDefaultPrecisionLearnsAsMuchAsFloat32OnTheCpu) {
    const testing::TempDir folder;
    std::vector<double> accuracy;
    for (const char* device : {"cpu", "cuda"}) {
        Recipe recipe = on(device);
        recipe.train.precision = "auto";  // bf16 on a GPU
        recipe.train.epochs = 20;
        accuracy.push_back(testing::live(recipe, folder / device).result.epochs.back().val_accuracy.value());
    }
    EXPECT_GT(accuracy[0], 0.8);
    EXPECT_GE(accuracy[1], accuracy[0] - 0.08);  // three of 40 samples
}

// `deterministic` runs need a setting of cuBLAS, which Stoker makes or asks for in one line.
TEST_F(TrainerCuda, ADeterministicRunRepeatsItsBits) {
    const testing::TempDir folder;
    Recipe recipe = on("cuda");
    recipe.train.deterministic = true;
    const testing::Outcome first = testing::live(recipe, folder / "first");
    const testing::Outcome second = testing::live(recipe, folder / "second");
    EXPECT_TRUE(testing::same_weights(first.weights, second.weights));
    EXPECT_EQ(testing::figures(first.result.epochs), testing::figures(second.result.epochs));
}

}  // namespace
}  // namespace stoker
