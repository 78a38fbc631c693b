// Compiled once for all tests of train/: with nlohmann::json in it, each file that had this as a header took seconds
// more.
#include "train/support.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "stoker/base/rng.h"
#include "stoker/models/init.h"

namespace stoker::testing {

void SquareDataset::read(std::int64_t index, Sample& sample) const {
    if (before_read) {
        before_read(index);
    }
    Rng rng({.seed = seed_, .sample = static_cast<std::uint64_t>(index)});
    sample.label = rng.below(4);
    sample.height = sample.width = 4;
    sample.channels = 1;
    sample.storage.resize(16);
    for (std::size_t i = 0; i < 16; ++i) {  // two bright rows or columns, and noise
        const bool bright = static_cast<std::int64_t>(sample.label < 2 ? i / 4 : i % 4) / 2 == sample.label % 2;
        sample.storage.data()[i] = static_cast<std::byte>((bright ? 120 : 0) + rng.below(136));
    }
    sample.bytes = sample.storage.bytes();
}

Recipe small_recipe(std::int64_t epochs) {
    Recipe recipe;
    recipe.seed = 5;
    recipe.device = "cpu";
    recipe.data.train = "squares";
    recipe.data.batch_size = 16;
    recipe.data.workers = 1;
    recipe.data.train_ops = {{.name = "horizontal_flip", .options = {}, .where = "test"}};
    recipe.model.hidden = {8};
    recipe.optimizer.lr = 1e-2;
    recipe.train.epochs = epochs;
    recipe.train.threads = 1;
    recipe.train.deterministic = true;
    return recipe;
}

RecipeData small_data() {
    return {std::make_shared<SquareDataset>(100), std::make_shared<SquareDataset>(40, 2)};
}

LinearModel::LinearModel() {
    at::Generator generator = make_generator(1);
    weight_ = parameter("weight", default_uniform({4, 16}, 16, generator));
}

at::Tensor LinearModel::forward(const at::Tensor& input) {
    if (before_forward) {
        before_forward();
    }
    at::Tensor logits = at::linear(input.flatten(1), weight_);
    if (on_logits) {
        on_logits(logits);
    }
    if (on_gradient && logits.requires_grad()) {
        logits.register_hook([this](const at::Tensor&) { on_gradient(); });
    }
    return logits;
}

std::vector<NamedTensor> weights_of(Trainer& trainer) {
    std::vector<NamedTensor> copy;
    for (const auto& [name, tensor] : trainer.model().state()) {
        copy.push_back({name, tensor.detach().clone()});
    }
    return copy;
}

bool same_weights(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NamedTensor& x, const NamedTensor& y) {
        return x.name == y.name && at::equal(x.tensor, y.tensor);
    });
}

std::string figures(const std::vector<EpochResult>& epochs) {
    std::string text;
    for (const auto& epoch : epochs) {
        text += fmt::format("{}: {:a} {:a} {:a}\n", epoch.epoch, epoch.train_loss, epoch.val_loss.value_or(-1),
                            epoch.val_accuracy.value_or(-1));
    }
    return text;
}

std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
}

std::string metrics_of(const std::filesystem::path& run) {
    std::ifstream in(run / "metrics.jsonl");
    std::string text;
    for (std::string line; std::getline(in, line);) {
        nlohmann::ordered_json json = nlohmann::ordered_json::parse(line);
        if (json["type"] != "step" && json["type"] != "epoch") {
            continue;
        }
        for (const char* key : {"us", "ready", "seconds", "images_per_second"}) {
            json.erase(key);
        }
        text += json.dump() + "\n";
    }
    return text;
}

Outcome live(const Recipe& recipe, const std::filesystem::path& run, std::int64_t stop_at) {
    Trainer trainer(recipe, small_data());
    std::atomic<int> interrupt = 0;
    std::int64_t steps = 0;
    FitOptions options{.out = run, .resume = "auto", .interrupt = &interrupt};
    options.on_step = [&](const Progress&) { interrupt = ++steps == stop_at ? 15 : 0; };
    std::vector<std::string> warnings;
    options.on_warning = [&](const std::string& line) { warnings.push_back(line); };
    TrainResult result = trainer.fit(options);
    return {std::move(result), weights_of(trainer), std::move(warnings)};
}

void die(const Recipe& recipe, const std::filesystem::path& run, std::int64_t at_step) {
    Trainer trainer(recipe, small_data());
    std::int64_t steps = 0;
    FitOptions options{.out = run, .resume = "auto"};
    options.on_step = [&](const Progress&) {
        if (++steps == at_step) {
            throw std::runtime_error("killed");
        }
    };
    options.on_failure = [&](const FailedRun& failed) {
        std::filesystem::remove_all(run / kCheckpoints / std::to_string(failed.step));
    };
    EXPECT_THROW(trainer.fit(options), std::runtime_error);
}

Recipe every(std::int64_t count, bool epochs, const std::string& optimizer) {
    Recipe recipe = small_recipe(kEpochs);
    recipe.optimizer.name = optimizer;
    recipe.optimizer.momentum = optimizer == "sgd" ? 0.9 : 0;
    recipe.schedule.name = "one_cycle";
    recipe.train.checkpoint_every = {.count = count, .epochs = epochs};
    return recipe;
}

}  // namespace stoker::testing
