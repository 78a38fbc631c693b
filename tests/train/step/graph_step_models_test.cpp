// Every kind of model as a graph, with all options of a step: the recorded work touches only Step::memory() and memory
// made within the work. A replay would write into memory that was freed otherwise, after an epoch's smaller last batch.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "stoker/models/init.h"
#include "stoker/models/model.h"
#include "stoker/models/torchscript_export.h"
#include "stoker/train/step/step.h"
#include "support/slow.h"
#include "support/temp_dir.h"
#include "train/step/fake_graph.h"
#include "train/step/step_kinds.h"

namespace stoker {
namespace {

using testing::capture_with;
using testing::FakeCalls;
using testing::FakeGraphs;

constexpr std::int64_t kModelClasses = 3;
constexpr std::int64_t kModelBatch = 6;
constexpr std::int64_t kLastModelBatch = 4;

// A CPU without bf16 emulates it: of two models with the same operators the larger one trains in fp32.
const StepOptions kAllInFp32{
    .precision = {.loss_scaling = true}, .accumulate = 2, .clip_norm = 0.1, .clip_value = 0.05, .ema = 0.9};
const StepOptions kAll{.precision = {.autocast = at::kBFloat16, .loss_scaling = true},
                       .accumulate = 2,
                       .clip_norm = 0.1,
                       .clip_value = 0.05,
                       .ema = 0.9};

struct ModelTraining {
    ModelTraining(const ModelRecipe& recipe, std::int64_t pixels, const StepOptions& options)
        : model(on(make_model(recipe, {3, pixels, pixels}, kModelClasses, 1))),
          optimizer(model->trainable_parameters(), {.name = "adamw", .lr = 0.01, .weight_decay = 0.1}),
          step(make_step({*model, optimizer, account, at::kCPU, options})),
          side(pixels) {
        at::set_num_threads(1);
    }

    static std::unique_ptr<Model> on(std::unique_ptr<Model> model) {
        model->to(at::kCPU, model->wants_channels_last());
        return model;
    }

    void run(std::int64_t samples, std::uint64_t seed) {
        at::Generator generator = make_generator(seed);
        const auto format =
            model->wants_channels_last() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
        at::manual_seed(seed);
        step->run({.input = at::randn({samples, 3, side, side}, generator).contiguous(format),
                   .target = at::arange(samples, at::kLong).remainder(kModelClasses)},
                  0.01);
    }

    // With names for messages.
    std::vector<NamedTensor> memory() const {
        std::vector<NamedTensor> all;
        for (const at::Tensor& tensor : step->memory()) {
            all.push_back({"tensor " + std::to_string(all.size()), tensor});
        }
        return all;
    }

    std::unique_ptr<Model> model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
    std::int64_t side;
};

// Warm-up, capture, replays, the smaller last batch of an epoch, and replays again.
void expect_graph_is_eager_step(const ModelRecipe& recipe, std::int64_t side, const StepOptions& options) {
    ModelTraining eager(recipe, side, options);
    ModelTraining graph(recipe, side, options);
    FakeCalls calls;
    capture_with(graph.step, std::make_unique<FakeGraphs>([&] { return graph.memory(); }, calls, false));
    std::uint64_t seed = 0;
    for (const std::int64_t samples :
         {kModelBatch, kModelBatch, kModelBatch, kModelBatch, kModelBatch, kLastModelBatch, kModelBatch, kModelBatch}) {
        eager.run(samples, ++seed);
        graph.run(samples, seed);
    }
    EXPECT_EQ(graph.step->compiled(), "graph");
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 4);
    std::set<const void*> unknown = calls.outside;
    for (const at::Tensor& tensor : graph.step->memory()) {
        unknown.erase(tensor.storage().data());
    }
    EXPECT_EQ(unknown.size(), 3U) << "the graph's own images, targets and loss";
    const std::vector<NamedTensor> own = graph.memory();
    const std::vector<NamedTensor> expected = eager.memory();
    ASSERT_EQ(own.size(), expected.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_TRUE(at::equal(own[i].tensor, expected[i].tensor)) << own[i].name;
    }
}

void expect_of_built_in(const char* name, std::int64_t side, const StepOptions& options) {
    SCOPED_TRACE(name);
    ModelRecipe recipe;
    recipe.name = name;
    expect_graph_is_eager_step(recipe, side, options);
}

void expect_of_torchscript(const char* name, std::int64_t side, const StepOptions& options) {
    const testing::TempDir folder;
    ModelRecipe recipe;
    recipe.name = name;
    const auto built_in = make_model(recipe, {3, side, side}, kModelClasses, 1);
    recipe.script = folder / "net.pt";
    save_torchscript(*built_in, {3, side, side}, recipe.script);
    expect_graph_is_eager_step(recipe, side, options);
}

TEST(GraphStepModels, ABuiltInOneTouchesItsOwnMemoryAlone) {
    expect_of_built_in("mlp", 8, kAll);
    expect_of_built_in("convnet", 8, kAll);
    expect_of_built_in("resnet18", 8, kAll);
}

TEST(GraphStepModels, ALargeBuiltInOneTouchesItsOwnMemoryAlone) {
    STOKER_SLOW_TEST();
    expect_of_built_in("resnet50", 8, kAllInFp32);
    expect_of_built_in("vit_s_16", 32, kAllInFp32);  // the one of TorchScript is in bf16
}

TEST(GraphStepModels, ATorchScriptOneTouchesItsOwnMemoryAlone) {
    expect_of_torchscript("mlp", 8, kAll);
}

TEST(GraphStepModels, ALargeTorchScriptOneTouchesItsOwnMemoryAlone) {
    STOKER_SLOW_TEST();
    expect_of_torchscript("vit_s_16", 32, kAll);
}

// tests/python/test_export_training.py makes the files and runs this test.
TEST(GraphStepModels, OneOfPythonTouchesItsOwnMemoryAlone) {
    const char* const file = std::getenv("STOKER_MODEL_OF_PYTHON");
    if (file == nullptr) {
        GTEST_SKIP() << "STOKER_MODEL_OF_PYTHON names no file";
    }
    ModelRecipe recipe;
    (std::string_view(file).ends_with(".pt2") ? recipe.exported : recipe.script) = file;
    expect_graph_is_eager_step(recipe, 40, kAll);
}

}  // namespace
}  // namespace stoker
