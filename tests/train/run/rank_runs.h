// Runs of several ranks, and their comparison with each other and with runs of one.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "stoker/formats/arrays/safetensors.h"
#include "support/ranks.h"
#include "train/support.h"

namespace stoker::testing {

inline constexpr std::int64_t kOddSamples = 97;  // the seventh batch has one sample: most ranks have none
inline constexpr std::int64_t kOddValSamples = 37;

inline RecipeData odd_data() {
    return {std::make_shared<SquareDataset>(kOddSamples), std::make_shared<SquareDataset>(kOddValSamples, 2)};
}

// Two steps of an `mlp` whose tensors are counted.
inline Recipe counted_recipe(std::int64_t batch, const std::vector<std::int64_t>& hidden) {
    Recipe recipe = small_recipe(1);
    recipe.data.train = fmt::format("synth:digits?count={}", 2 * batch);
    recipe.data.train_ops = {};
    recipe.data.batch_size = batch;
    recipe.data.workers = 0;
    recipe.model.hidden = hidden;
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0;
    return recipe;
}

struct RankRuns {
    std::vector<TrainResult> results;               // of each rank
    std::vector<std::vector<NamedTensor>> weights;  // likewise
};

// `before`: each rank's first work with its group.
inline RankRuns train_ranks(
    const Recipe& recipe, int ranks, const std::filesystem::path& out, const std::string& resume = "",
    const std::function<void(const Group&)>& before = [](const Group&) {}) {
    RankRuns run;
    run.results.resize(static_cast<std::size_t>(ranks));
    run.weights.resize(static_cast<std::size_t>(ranks));
    const auto as_one = [&](const std::shared_ptr<Group>& group) {
        before(*group);
        Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, !resume.empty(), group);
        const auto rank = static_cast<std::size_t>(group->rank());
        run.results[rank] = trainer.fit({.out = out, .resume = resume});
        if (recipe.train.shard != "full") {  // else no rank has them
            run.weights[rank] = weights_of(trainer);
        }
    };
    if (ranks == 1) {
        as_one(std::make_shared<Group>());
    } else {
        EXPECT_THAT(as_ranks(ranks, as_one), ::testing::Each(""));
    }
    return run;
}

// Losses of all steps of a run over `ranks`. `after_epoch` is called on each rank.
inline std::vector<double> step_losses(const Recipe& recipe, int ranks,
                                       const std::function<void(Trainer&, const Group&)>& after_epoch) {
    std::vector<double> losses;
    const auto as_one = [&](const std::shared_ptr<Group>& group) {
        Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
        FitOptions fit;
        fit.on_epoch = [&](const EpochResult&) { after_epoch(trainer, *group); };
        fit.on_record = [&](const std::string& lines) {  // some records are one line of each rank
            std::istringstream in(lines);
            for (std::string line; std::getline(in, line);) {
                const auto record = nlohmann::json::parse(line);
                if (group->first() && record["type"] == "step") {
                    losses.push_back(record["loss"]);
                }
            }
        };
        trainer.fit(fit);
    };
    if (ranks == 1) {
        as_one(std::make_shared<Group>());
    } else {
        EXPECT_THAT(as_ranks(ranks, as_one), ::testing::Each(""));
    }
    return losses;
}

// Losses and figures may differ by rounding; all other values must be equal.
inline void expect_alike(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
    std::istringstream in_a(metrics_of(a));
    std::istringstream in_b(metrics_of(b));
    std::string text_a;
    std::string text_b;
    const auto lines = [](const std::filesystem::path& run) {
        const std::string text = metrics_of(run);
        return std::ranges::count(text, '\n');
    };
    EXPECT_GE(lines(a), 3 * kStepsAnEpoch);
    EXPECT_EQ(lines(a), lines(b));
    while (std::getline(in_a, text_a) && std::getline(in_b, text_b)) {
        const auto line_a = nlohmann::json::parse(text_a);
        const auto line_b = nlohmann::json::parse(text_b);
        for (const auto& [key, value] : line_a.items()) {
            if (value.is_number_float()) {
                const double was = value.get<double>();
                EXPECT_NEAR(line_b.at(key).get<double>(), was, tolerance * std::max(1.0, std::abs(was)))
                    << key << " in " << text_a;
            } else {
                EXPECT_EQ(line_b.at(key), value) << key << " in " << text_a;
            }
        }
    }
}

// The steps that were not skipped, for each parameter of a saved optimizer.
inline std::vector<float> step_counts(const SafetensorsFile& saved) {
    std::vector<float> counts;
    for (const auto& [name, view] : saved.tensors()) {
        if (name.starts_with("step.")) {
            counts.push_back(*reinterpret_cast<const float*>(view.data));
        }
    }
    return counts;
}

// Trains in fp16 with a scale that falls until no gradient overflows, and passes scales at which those of one rank do
// and of another do not. All ranks must skip the same steps.
inline void expect_overflows_skip_on_all(Recipe recipe, int ranks, double factor) {
    const TempDir dir;
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = factor * (1 << 22);
    train_ranks(recipe, ranks, dir.path());
    const SafetensorsFile saved((dir.path() / "checkpoints/7/optimizer.safetensors").string());
    const auto scale = std::ranges::find(saved.tensors(), "scaler.scale", &NamedView::name);
    ASSERT_NE(scale, saved.tensors().end());
    EXPECT_LT(*reinterpret_cast<const float*>(scale->view.data), recipe.train.loss_scale / 4);
    const std::vector<float> counts = step_counts(saved);
    EXPECT_THAT(counts, ::testing::Each(counts.front()));
    EXPECT_LT(counts.front(), 7) << "a skipped step does not count";
}

inline void expect_equal_ranks(const RankRuns& run) {
    for (std::size_t rank = 1; rank < run.weights.size(); ++rank) {
        EXPECT_TRUE(same_weights(run.weights[rank], run.weights[0])) << "rank " << rank;
        EXPECT_EQ(figures(run.results[rank].epochs), figures(run.results[0].epochs));
    }
}

}  // namespace stoker::testing
