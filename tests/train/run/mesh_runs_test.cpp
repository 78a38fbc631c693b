// Runs whose model is divided among ranks train what one process trains, write its checkpoints, and go on from them.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "stoker/formats/arrays/safetensors.h"
#include "stoker/train/rank_step.h"
#include "support/counted_memory.h"
#include "support/slow.h"
#include "train/run/rank_runs.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using testing::expect_alike;
using ::testing::HasSubstr;
using testing::odd_data;
using testing::RankRuns;
using testing::small_recipe;
using testing::step_losses;
using testing::TempDir;
using testing::train_ranks;

// Four layers: two pairs.
Recipe wide_recipe(std::int64_t epochs = 3) {
    Recipe recipe = small_recipe(epochs);
    recipe.model.hidden = {16, 12, 8};
    recipe.model.activation = "gelu";
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0.9;
    return recipe;
}

Recipe vit_recipe() {
    Recipe recipe = small_recipe(1);
    recipe.model.name = "vit_s_16";
    recipe.optimizer.name = "sgd";
    recipe.optimizer.lr = 1e-3;
    const Recipe ops = parse_recipe("[data]\ntrain = \"x\"\ntrain_ops = [{op = \"resize\", size = 16}]", "test");
    recipe.data.train_ops = recipe.data.val_ops = ops.data.train_ops;
    return recipe;
}

Recipe over(Recipe recipe, std::int64_t tp) {
    recipe.train.mesh.tp = tp;
    return recipe;
}

// Losses of all steps. After each epoch, whole tensors are the same bits on all ranks, and slices where ranks have the
// same ones.
std::vector<double> mesh_losses(const Recipe& recipe, int ranks) {
    const std::int64_t tp = recipe.train.mesh.tp;
    return step_losses(recipe, ranks, [&](Trainer& trainer, const Group& group) {
        const auto& divided = trainer.model().divided();
        EXPECT_EQ(divided.empty(), tp == 1);
        for (const auto& [name, tensor] : trainer.model().state()) {
            const at::Tensor all = group.all_gather(tensor.detach());  // (ranks, ...)
            const bool slice = std::ranges::find(divided, name, &DividedParameter::name) != divided.end();
            for (int rank = 0; rank < ranks; ++rank) {
                EXPECT_TRUE(at::equal(all[rank], all[slice ? rank % tp : 0])) << name << " of rank " << rank;
            }
        }
    });
}

void expect_losses_of_one(const Recipe& recipe, const std::vector<std::pair<int, std::int64_t>>& meshes,
                          std::size_t steps) {
    const std::vector<double> one = mesh_losses(recipe, 1);
    ASSERT_EQ(one.size(), steps);
    for (const auto& [ranks, tp] : meshes) {
        const std::vector<double> several = mesh_losses(over(recipe, tp), ranks);
        ASSERT_EQ(several.size(), one.size());
        for (std::size_t step = 0; step < one.size(); ++step) {
            EXPECT_NEAR(several[step] / one[step], 1, 1e-6)
                << "step " << step << " of " << ranks << " ranks, " << tp << " a copy";
        }
    }
}

TEST(MeshRuns, AnMlpsLossesAreThoseOfOneProcess) {
    expect_losses_of_one(wide_recipe(), {{2, 2}, {4, 4}, {4, 2}}, 21);
}

TEST(MeshRuns, AVisionTransformersLossesAreThoseOfOneProcess) {
    STOKER_SLOW_TEST();
    Recipe recipe = vit_recipe();
    recipe.train.channels_last = false;
    expect_losses_of_one(recipe, {{3, 3}, {4, 2}}, 7);
}

struct MeshCase {
    const char* name;
    int ranks;
    std::int64_t tp;
    void (*change)(Recipe&);
    double tolerance = 1e-6;
};

void PrintTo(const MeshCase& given, std::ostream* out) {
    *out << given.name;
}

class Meshes : public ::testing::TestWithParam<MeshCase> {};

TEST_P(Meshes, TrainWhatOneTrains) {
    const TempDir dir;
    const auto& [name, ranks, tp, change, tolerance] = GetParam();
    Recipe recipe = wide_recipe();
    change(recipe);
    train_ranks(recipe, 1, dir.path() / "one");
    const RankRuns run = train_ranks(over(recipe, tp), ranks, dir.path() / "several");
    expect_alike(dir.path() / "one", dir.path() / "several", tolerance);
    for (const TrainResult& result : run.results) {
        EXPECT_EQ(testing::figures(result.epochs), testing::figures(run.results[0].epochs));
    }
}

void with_everything(Recipe& recipe) {
    recipe.train.accumulate = 2;
    recipe.train.clip_norm = 0.05;
    recipe.train.ema = 0.9;
    recipe.train.mixup = 0.4;
}

void with_everything_sharded(Recipe& recipe) {
    with_everything(recipe);
    recipe.train.shard = "optimizer";
    recipe.optimizer.name = "adamw";
    recipe.optimizer.weight_decay = 0.1;
    recipe.optimizer.no_decay = {"norms_and_biases"};
}

void with_overflows(Recipe& recipe) {
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1024;
}

constexpr double kSixteenBits = 2e-2;
INSTANTIATE_TEST_SUITE_P(
    Each, Meshes,
    ::testing::Values(MeshCase{"two", 2, 2, [](Recipe&) {}}, MeshCase{"two_copies_of_two", 4, 2, [](Recipe&) {}},
                      MeshCase{"odd_layers", 2, 2,
                               [](Recipe& r) {
                                   r.model.hidden = {8, 6};
                               }},
                      MeshCase{"clipping", 4, 4, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                      MeshCase{"clip_value", 2, 2, [](Recipe& r) { r.train.clip_value = 0.01; }},
                      MeshCase{"ema", 2, 2, [](Recipe& r) { r.train.ema = 0.9; }},
                      MeshCase{"frozen", 2, 2,
                               [](Recipe& r) {
                                   r.model.freeze = {"fc1.*", "fc4.bias"};
                               }},
                      MeshCase{"adam", 4, 2, [](Recipe& r) { r.optimizer.name = "adam"; }, 1e-5},
                      MeshCase{"everything", 4, 2, with_everything},
                      MeshCase{"everything_sharded", 4, 2, with_everything_sharded, 1e-5},
                      MeshCase{"compressed", 4, 2, [](Recipe& r) { r.train.compress_gradients = "bf16"; },
                               kSixteenBits},
                      MeshCase{"fp16", 4, 2, with_overflows, kSixteenBits},
                      MeshCase{"bf16", 2, 2, [](Recipe& r) { r.train.precision = "bf16"; }, kSixteenBits}),
    [](const auto& given) { return given.param.name; });

TEST(MeshRuns, AnOverflowOnOneRankSkipsTheStepOnAll) {
    Recipe recipe = over(wide_recipe(1), 2);
    for (const double factor : {1.0, 1.2, 1.4, 1.7}) {
        testing::expect_overflows_skip_on_all(recipe, 2, factor);
    }
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1 << 22;
    mesh_losses(recipe, 2);  // compares the ranks' weights
}

std::string file_of(const std::filesystem::path& run, const char* checkpoint, const char* file) {
    return testing::text_of(run / "checkpoints" / checkpoint / (std::string(file) + ".safetensors"));
}

// A learning rate that is 0 in float32: the files are those of one process, byte for byte. The average and
// the momentum are of slices that come together again.
TEST(MeshCheckpoints, HaveTheBytesOfOneProcess) {
    STOKER_SLOW_TEST();
    const TempDir dir;
    for (const char* model : {"mlp", "vit_s_16"}) {
        Recipe recipe = std::string(model) == "mlp" ? wide_recipe(1) : vit_recipe();
        recipe.optimizer.lr = 1e-60;
        recipe.train.ema = 0.9;
        const std::filesystem::path runs = dir.path() / model;
        train_ranks(recipe, 1, runs / "one");
        train_ranks(over(recipe, 2), 4, runs / "mesh");
        for (const char* file : {"model", "ema"}) {
            EXPECT_TRUE(file_of(runs / "mesh", "7", file) == file_of(runs / "one", "7", file)) << model << " " << file;
            EXPECT_GT(file_of(runs / "one", "7", file).size(), 1000U);
        }
        const SafetensorsFile one((runs / "one/checkpoints/7/optimizer.safetensors").string());
        const SafetensorsFile mesh((runs / "mesh/checkpoints/7/optimizer.safetensors").string());
        ASSERT_EQ(mesh.tensors().size(), one.tensors().size());
        for (std::size_t i = 0; i < one.tensors().size(); ++i) {
            EXPECT_EQ(mesh.tensors()[i].name, one.tensors()[i].name);
            EXPECT_EQ(mesh.tensors()[i].view.shape, one.tensors()[i].view.shape) << one.tensors()[i].name;
        }
    }
}

// From any mesh to any other in the middle of a run, with an optimizer that has state of each parameter.
TEST(MeshCheckpoints, AnyMeshGoesOn) {
    const TempDir dir;
    Recipe recipe = wide_recipe();
    recipe.optimizer.name = "adam";
    recipe.train.ema = 0.9;
    train_ranks(recipe, 1, dir.path() / "whole");
    struct Shape {
        int ranks;
        std::int64_t tp;
        bool shard = false;
    };
    const std::vector<Shape> shapes = {{1, 1}, {2, 2}, {4, 4}, {4, 2}, {4, 2, true}, {2, 1}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::filesystem::path run = dir.path() / std::to_string(i);
        const auto shaped = [&](const Shape& shape) {
            Recipe own = over(recipe, shape.tp);
            own.train.shard = shape.shard ? "optimizer" : "none";
            return own;
        };
        const Shape& first = shapes[i];
        const Shape& second = shapes[(i + 1) % shapes.size()];
        train_ranks(shaped(first), first.ranks, run);
        std::filesystem::remove_all(run / "checkpoints/21");
        const RankRuns resumed = train_ranks(shaped(second), second.ranks, run, "auto");
        EXPECT_EQ(resumed.results[0].resumed_from_step, 14);
        expect_alike(dir.path() / "whole", run, 1e-5);
    }
}

// The slices of a network twice as wide have the shapes of the whole one's tensors.
TEST(MeshCheckpoints, OfAnotherWidthIsRefused) {
    const TempDir dir;
    Recipe recipe = small_recipe(1);
    recipe.model.hidden = {8};
    train_ranks(recipe, 1, dir.path() / "run");
    recipe.model.hidden = {16};
    recipe.train.epochs = 2;
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(over(recipe, 2), odd_data(), nullptr, OptimizerKernel::fused, true, group);
                             trainer.fit({.out = dir.path() / "run", .resume = "auto"});
                         }),
                Each(HasSubstr("[fc1.weight] expected [16, ")));
}

TEST(MeshRuns, BadSamplesOfACopyCountOnce) {
    const TempDir dir;
    EXPECT_THAT(as_ranks(4,
                         [&](const auto& group) {
                             auto source = std::make_shared<testing::SquareDataset>(testing::kOddSamples);
                             source->before_read = [](std::int64_t index) {
                                 if (index % 20 == 7) {  // five of them
                                     throw DataError({.path = "squares"},
                                                     {.where = "test", .expected = "a good one", .got = "none"});
                                 }
                             };
                             Recipe recipe = over(wide_recipe(1), 2);
                             recipe.data.bad_samples = {.count = 5};
                             Trainer trainer(recipe, {source, nullptr}, nullptr, OptimizerKernel::fused, false, group);
                             EXPECT_EQ(trainer.fit({.out = dir.path() / "run"}).epochs.at(0).bad_samples, 5);
                         }),
                Each(""));
    std::ifstream in(dir.path() / "run/quarantine.jsonl");
    std::int64_t lines = 0;
    for (std::string line; std::getline(in, line); ++lines) {
    }
    EXPECT_EQ(lines, 5) << "both ranks of a copy read the same samples";
}

TEST(MeshRuns, WhatCannotBeDividedIsRefused) {
    const auto refused = [](const Recipe& recipe, int ranks) {
        return as_ranks(ranks, [&](const auto& group) {
            Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
        });
    };
    Recipe recipe = over(wide_recipe(), 2);
    EXPECT_THAT(refused(recipe, 3), Each(HasSubstr("[train.mesh] expected a multiple of 2 processes")));
    recipe.model.hidden = {7};
    EXPECT_THAT(refused(recipe, 2), Each(HasSubstr("[train.mesh.tp] expected a divisor of every other width")));
    recipe.model.name = "convnet";
    EXPECT_THAT(refused(recipe, 2), Each(HasSubstr("[train.mesh.tp] expected 1, except for mlp and vit_s_16")));
    Recipe vit = over(vit_recipe(), 4);
    EXPECT_THAT(refused(vit, 4), Each(HasSubstr("[train.mesh.tp] expected a divisor of the 6 attention heads")));
}

// A rank's tensors: its slices, their gradients, in the buckets of the copies, and activations.
TEST(MeshRuns, HoldWhatThePlanSays) {
    at::set_num_threads(1);
    testing::CountedMemory& memory = testing::CountedMemory::instance();
    Recipe recipe = testing::counted_recipe(1024, std::vector<std::int64_t>(7, 128));
    for (const int tp : {2, 4}) {
        for (const int copies : {1, 2}) {
            const int ranks = tp * copies;
            const RankMemory plan = measure_rank_step(over(recipe, tp), {.ranks = ranks, .rounds = 1}).memory;
            std::vector<std::int64_t> peaks(static_cast<std::size_t>(ranks));
            const auto train = [&](const std::shared_ptr<Group>& group) {
                memory.begin_peak_of_thread();
                Trainer trainer(over(recipe, tp), {open_train_data(recipe.data).train, nullptr}, nullptr,
                                OptimizerKernel::fused, false, group);
                trainer.fit();
                peaks[static_cast<std::size_t>(group->rank())] = memory.peak_of_thread();
            };
            EXPECT_THAT(as_ranks(ranks, train), Each(""));
            // The images are the loader's.
            const double images = 1024.0 / copies * 784 * 4;
            const double planned = static_cast<double>(plan.sum()) - images;
            // Gloo's thread may hold one more message, which is 10 to 14 % of these small models.
            EXPECT_NEAR(static_cast<double>(std::ranges::max(peaks)) / planned, 1, 0.15)
                << "tp = " << tp << ", dp = " << copies << ": " << std::ranges::max(peaks) << " of " << planned;
        }
    }
}

}  // namespace
}  // namespace stoker
