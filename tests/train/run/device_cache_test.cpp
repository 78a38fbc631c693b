// data.cache = "device": runs on images in a device's memory are the runs of the ordinary loader, to the last bit, also
// stopped and resumed, as a graph, and with mixup; and images that cannot be there stay on the CPU with a reason. Here
// the device is the CPU (ImagesOnCpu).
#include "stoker/train/run/image_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/bridge/device_images.h"
#include "stoker/train/run/run_setup.h"
#include "train/step/fake_graph.h"
#include "train/step/step_kinds.h"
#include "train/support.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::live;
using testing::metrics_of;
using testing::Outcome;
using testing::same_weights;
using testing::small_data;
using testing::TempDir;

using Options = std::map<std::string, OptionValue>;

Recipe device_recipe(const std::string& model = "mlp") {
    Recipe recipe = testing::every(2, /*epochs=*/false);
    recipe.model.name = model;
    recipe.data.train_ops = {{.name = "random_crop", .options = {{"size", 4.0}, {"padding", 1.0}}, .where = "test"},
                             {.name = "horizontal_flip", .options = {}, .where = "test"},
                             {.name = "random_erasing", .options = {}, .where = "test"},
                             {.name = "normalize", .options = {{"preset", "mnist"}}, .where = "test"}};
    recipe.data.val_ops = {{.name = "normalize", .options = {{"preset", "mnist"}}, .where = "test"}};
    recipe.data.cache = "device";
    return recipe;
}

Recipe on_host(Recipe recipe) {
    recipe.data.cache = "none";
    return recipe;
}

void expect_same_run(const Recipe& recipe, const TempDir& folder) {
    const Outcome plain = live(on_host(recipe), folder / "plain");
    const Outcome own = live(recipe, folder / "own");
    EXPECT_EQ(testing::figures(own.result.epochs), testing::figures(plain.result.epochs));
    EXPECT_TRUE(same_weights(own.weights, plain.weights));
    EXPECT_EQ(metrics_of(folder / "own"), metrics_of(folder / "plain")) << "losses and batch hashes of all steps";
}

TEST(DeviceCache, IsRefusedWhereThereIsNoGpu) {
    try {
        make_train_loader(device_recipe(), small_data(), at::kCPU, false);
        FAIL() << "this is not a GPU";
    } catch (const Unsupported& error) {
        EXPECT_THAT(error.what(), HasSubstr("data.cache"));
        EXPECT_THAT(error.what(), HasSubstr("this run is on cpu"));
        EXPECT_THAT(error.what(), HasSubstr("data.cache = \"ram\""));
    }
}

TEST(DeviceCache, ARunIsThatOfTheOrdinaryLoader) {
    const ImagesOnCpu allowed;
    for (const char* model : {"mlp", "convnet"}) {
        const TempDir folder;
        expect_same_run(device_recipe(model), folder);
        EXPECT_THAT(testing::text_of(folder / "own" / "metrics.jsonl"), HasSubstr("\"cache\":\"device\""));
    }
}

TEST(DeviceCache, ColoursChangeThereToo) {
    const ImagesOnCpu allowed;
    Recipe recipe = device_recipe();
    recipe.data.train_ops.insert(
        recipe.data.train_ops.begin() + 1,
        {.name = "color_jitter", .options = {{"brightness", 0.4}, {"contrast", 0.4}}, .where = "test"});
    const TempDir folder;
    expect_same_run(recipe, folder);
    EXPECT_THAT(testing::text_of(folder / "own" / "metrics.jsonl"), HasSubstr("\"cache\":\"device\""));
}

TEST(DeviceCache, MixupAndMicroBatchesToo) {
    const ImagesOnCpu allowed;
    Recipe recipe = device_recipe("convnet");
    recipe.train.mixup = 0.4;
    recipe.train.accumulate = 2;
    expect_same_run(recipe, TempDir());
}

TEST(DeviceCache, AStoppedRunEndsAsAnUnbrokenOne) {
    const ImagesOnCpu allowed;
    const Recipe recipe = device_recipe();
    const TempDir folder;
    const Outcome unbroken = live(recipe, folder / "unbroken");
    for (const std::int64_t stop_at : {1, 6, 9}) {
        SCOPED_TRACE(stop_at);
        const std::string run = folder / fmt::to_string(stop_at);
        live(recipe, run, stop_at);
        const Outcome resumed = live(recipe, run);
        EXPECT_EQ(testing::figures(resumed.result.epochs), testing::figures(unbroken.result.epochs));
        EXPECT_TRUE(same_weights(resumed.weights, unbroken.weights));
        EXPECT_EQ(metrics_of(run), metrics_of(folder / "unbroken"));
    }
}

TEST(DeviceCache, WhatCannotLieThereStaysInHostMemoryWithTheReason) {
    const ImagesOnCpu allowed;
    Recipe recipe = device_recipe();
    recipe.data.train_ops.insert(recipe.data.train_ops.begin() + 1,
                                 {.name = "gaussian_blur", .options = {{"kernel_size", 3.0}}, .where = "test"});
    const TempDir folder;
    expect_same_run(recipe, folder);
    EXPECT_THAT(testing::text_of(folder / "own" / "metrics.jsonl"), HasSubstr("\"cache\":\"ram\""));
    const auto loader = make_train_loader(recipe, small_data(), at::kCPU, false);
    EXPECT_EQ(loader->indexed_images(), nullptr);
    EXPECT_EQ(loader->why_not_indexed(), "gaussian_blur changes pixels in a way that is done on the CPU");

    recipe = device_recipe();
    recipe.data.cache_bytes = 1000;
    EXPECT_THAT(make_train_loader(recipe, small_data(), at::kCPU, false)->why_not_indexed(),
                HasSubstr("data.cache_bytes"));
    recipe = device_recipe();
    recipe.data.train_ops = {{.name = "random_resized_crop", .options = {{"size", 400.0}}, .where = "test"}};
    EXPECT_EQ(make_train_loader(recipe, small_data(), at::kCPU, false)->why_not_indexed(),
              "a resize of 4 x 4 to 400 x 400 is too large for the kernel's shared memory");
}

// A graph's input is the draws, which it gathers at each replay.
TEST(DeviceCache, AGraphGathersTheDrawsOfEachReplay) {
    const ImagesOnCpu allowed;
    at::set_num_threads(1);
    std::vector<std::vector<double>> losses;
    for (const bool graph : {true, false}) {
        const Recipe recipe = device_recipe();
        auto loader = make_train_loader(graph ? recipe : on_host(recipe), small_data(), at::kCPU, false);
        testing::LinearModel model;
        Optimizer optimizer(model.parameters(), {.name = "sgd", .lr = 0.01});
        Account account;
        std::unique_ptr<Step> step = make_step({model, optimizer, account, at::kCPU, {.compile = false}});
        testing::FakeCalls calls;
        if (graph) {
            testing::capture_with(step,
                                  std::make_unique<testing::FakeGraphs>([&] { return model.state(); }, calls, false));
        }
        DeviceCopier copier(at::kCPU);
        for (int i = 0; i < 16; ++i) {
            if (const auto batch = loader->next()) {
                step->run(copier.copy(batch), 0.01);
            }
        }
        EXPECT_EQ(calls.captures, graph ? 1 : 0);
        EXPECT_GT(calls.replays, graph ? 5 : -1);
        losses.push_back(step->take_losses());
    }
    EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace stoker
