// Runs our rungs in this process and the peer's as child processes, in turn, round by round, so that
// a machine that changes speed changes it for both. Medians over rounds are reported.
#include "bench_ladder.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "child.h"
#include "progress.h"
#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string data = "synth:digits";
    std::int64_t epochs = 5;
    int rounds = 1;
    bool peer = false;
    std::string python = ".venv/bin/python";
    std::string script = "bench/peers/mnist_pytorch.py";
    std::string device = "auto";
    bool json = false;
};

struct Rung {
    std::string name;
    std::function<void(Recipe&)> set_up;
    OptimizerKernel kernel = OptimizerKernel::single_tensor;
    bool gpu_only = false;
};

struct Measured {
    std::string name;
    std::vector<double> seconds;  // of all epochs, one entry a round
    std::vector<double> accuracy;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Recipe experiment(const Options& options) {
    Recipe recipe;
    recipe.device = options.device;
    recipe.data.train = options.data;
    recipe.data.batch_size = 64;
    recipe.data.train_ops = {{.name = "normalize", .options = {{"preset", "mnist"}}, .where = "ladder"}};
    recipe.data.val_ops = recipe.data.train_ops;
    recipe.train.epochs = options.epochs;
    return recipe;
}

// Each rung keeps what those before it set.
std::vector<Rung> ladder() {
    const int workers = std::max(read_core_budget().usable, 1);
    const auto alone = [](Recipe& recipe) { recipe.data.workers = 0; };
    const auto with_workers = [workers](Recipe& recipe) { recipe.data.workers = workers; };
    const auto in_memory = [workers](Recipe& recipe) {
        recipe.data.workers = workers;
        recipe.data.cache = "ram";
    };
    return {{.name = "one thread", .set_up = alone},
            {.name = fmt::format("+ {} workers", workers), .set_up = with_workers},
            {.name = "+ pinned memory, non-blocking copies", .set_up = with_workers, .gpu_only = true},
            {.name = "+ decoded data in memory", .set_up = in_memory},
            {.name = "+ fused optimizer", .set_up = in_memory, .kernel = OptimizerKernel::fused}};
}

void run_rung(const Options& options, const Rung& rung, std::uint64_t seed, Measured& measured) {
    Recipe recipe = experiment(options);
    recipe.seed = seed;
    rung.set_up(recipe);
    Trainer trainer(recipe, open_data(recipe.data), nullptr, rung.kernel);
    const TrainResult result = trainer.fit();
    double seconds = 0;
    for (const auto& epoch : result.epochs) {
        seconds += epoch.seconds;
    }
    measured.seconds.push_back(seconds);
    measured.accuracy.push_back(result.epochs.back().val_accuracy.value_or(0));
}

void run_peer(const Options& options, const std::string& name, std::uint64_t seed, Measured& measured) {
    const std::string text =
        run_child({options.python, options.script, "--data", options.data, "--rung", name, "--epochs",
                   std::to_string(options.epochs), "--seed", std::to_string(seed), "--json"});
    const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("rungs") || document["rungs"].empty()) {
        throw Error({.where = options.script, .expected = "a JSON document with rungs", .got = text.substr(0, 80)});
    }
    measured.seconds.push_back(document["rungs"][0]["seconds"].get<double>());
    measured.accuracy.push_back(document["rungs"][0]["accuracy"].get<double>());
}

Json to_json(const std::vector<Measured>& rungs, double base, std::int64_t epochs) {
    Json list = Json::array();
    for (const auto& rung : rungs) {
        const double seconds = median(rung.seconds);
        list.push_back({{"name", rung.name},
                        {"seconds", seconds},
                        {"epoch_seconds", seconds / static_cast<double>(epochs)},
                        {"speedup", base / seconds},
                        {"accuracy", median(rung.accuracy)},
                        {"rounds", rung.seconds}});
    }
    return list;
}

void print_table(const Json& rungs, const char* title) {
    fmt::print("{:<38} {:>9} {:>12} {:>9} {:>10}\n", title, "seconds", "s an epoch", "speed-up", "accuracy");
    for (const auto& rung : rungs) {
        fmt::print("{:<38} {:>9.2f} {:>12.3f} {:>8.2f}x {:>8.2f} %\n", rung["name"].get<std::string>(),
                   rung["seconds"].get<double>(), rung["epoch_seconds"].get<double>(), rung["speedup"].get<double>(),
                   100 * rung["accuracy"].get<double>());
    }
}

int run(const Options& options) {
    std::vector<Rung> rungs = ladder();
    if (!pick_device(options.device).is_cuda()) {
        // Pinned memory is what copies to a GPU start from: without one that rung does not exist.
        std::erase_if(rungs, [](const Rung& rung) { return rung.gpu_only; });
    }
    std::vector<std::string> peers;
    if (options.peer) {
        peers = {"python workers=0", "python workers=2", "python workers=8", "python in-memory"};
    }
    std::vector<Measured> ours(rungs.size());
    std::vector<Measured> theirs(peers.size());
    for (int round = 0; round < options.rounds; ++round) {
        const auto seed = static_cast<std::uint64_t>(round);
        for (std::size_t i = 0; i < std::max(rungs.size(), peers.size()); ++i) {
            if (i < rungs.size()) {
                ours[i].name = rungs[i].name;
                fmt::print(stderr, "round {}/{}: stoker, {}\n", round + 1, options.rounds, rungs[i].name);
                run_rung(options, rungs[i], seed, ours[i]);
            }
            if (i < peers.size()) {
                theirs[i].name = peers[i];
                fmt::print(stderr, "round {}/{}: {}\n", round + 1, options.rounds, peers[i]);
                run_peer(options, peers[i], seed, theirs[i]);
            }
        }
    }
    const double base = median(ours.front().seconds);
    const Json ours_json = to_json(ours, base, options.epochs);
    const Json theirs_json = to_json(theirs, theirs.empty() ? base : median(theirs.front().seconds), options.epochs);
    if (options.json) {
        Json document = {
            {"data", options.data}, {"epochs", options.epochs}, {"rounds", options.rounds}, {"rungs", ours_json}};
        if (options.peer) {
            document["peer"] = theirs_json;
        }
        fmt::print("{}\n", document.dump(2));
        return 0;
    }
    print_table(ours_json, "stoker");
    if (options.peer) {
        fmt::print("\n");
        print_table(theirs_json, "plain Python PyTorch");
        fmt::print("\nour last rung against Python's first: {:.1f}x; against Python in memory: {:.2f}x\n",
                   median(theirs.front().seconds) / median(ours.back().seconds),
                   median(theirs.back().seconds) / median(ours.back().seconds));
    }
    return 0;
}

}  // namespace

Command add_bench_ladder(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--data", options->data, "an IDX directory such as MNIST's, or synth:digits")->capture_default_str();
    app.add_option("--epochs", options->epochs, "epochs of each rung")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_option("--rounds", options->rounds, "how often all rungs are run; medians are reported")
        ->capture_default_str()
        ->check(CLI::Range(1, 100));
    app.add_option("--device", options->device, "auto, cpu or cuda")->capture_default_str();
    app.add_flag("--peer", options->peer, "run plain Python PyTorch in turn with ours (needs an IDX directory)");
    app.add_option("--python", options->python, "the interpreter with torch and torchvision for --peer")
        ->capture_default_str();
    app.add_option("--peer-script", options->script, "the peer's script")->capture_default_str();
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app,
            "  stoker bench ladder --data synth:digits\n"
            "  stoker synth digits data/digits && stoker bench ladder --data data/digits --peer");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
