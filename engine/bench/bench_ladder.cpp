// Runs our rungs in this process and the peer's as child processes, in turn, round by round, so that
// a machine that changes speed changes it for both. Medians over rounds are reported.
#include "engine/commands.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench/figures.h"
#include "cli/terminal/interrupt.h"
#include "engine/bench/ladder_peer.h"
#include "stoker/base/core_budget.h"
#include "stoker/cuda/cuda_device.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string data = "synth:digits";
    std::int64_t epochs = 5;
    int rounds = 1;
    bool peer = false;
    Peer peer_program = {.script = "bench/peers/mnist_pytorch.py"};
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

Recipe experiment(const Options& options, const std::string& data) {
    Recipe recipe;
    recipe.device = options.device;
    recipe.data.train = data;
    recipe.data.batch_size = 64;
    recipe.data.train_ops = {{.name = "normalize", .options = {{"preset", "mnist"}}, .where = "ladder"}};
    recipe.data.val_ops = recipe.data.train_ops;
    recipe.train.epochs = options.epochs;
    recipe.train.compile = "none";
    return recipe;
}

// Each rung keeps what those before it set.
std::vector<Rung> ladder() {
    const int workers = std::max(read_core_budget().usable, 1);
    const auto alone = [](Recipe& recipe) {
        recipe.data.workers = 0;
        recipe.data.pin_memory = false;
    };
    const auto with_workers = [workers](Recipe& recipe) {
        recipe.data.workers = workers;
        recipe.data.pin_memory = false;
    };
    const auto pinned = [workers](Recipe& recipe) { recipe.data.workers = workers; };
    const auto in_memory = [workers](Recipe& recipe) {
        recipe.data.workers = workers;
        recipe.data.cache = "ram";
    };
    const auto fused_step = [in_memory](Recipe& recipe) {
        in_memory(recipe);
        recipe.train.compile = "auto";
    };
    const auto no_workers = [fused_step](Recipe& recipe) {
        fused_step(recipe);
        recipe.data.workers = 0;
    };
    return {{.name = "one thread", .set_up = alone},
            {.name = fmt::format("+ {} workers", workers), .set_up = with_workers},
            {.name = "+ pinned memory, non-blocking copies", .set_up = pinned, .gpu_only = true},
            {.name = "+ decoded data in memory", .set_up = in_memory},
            {.name = "+ fused optimizer", .set_up = in_memory, .kernel = OptimizerKernel::fused},
            {.name = "+ fused step", .set_up = fused_step, .kernel = OptimizerKernel::fused},
            {.name = "+ no workers, as the data is in memory", .set_up = no_workers, .kernel = OptimizerKernel::fused}};
}

// What all rungs of one call share.
struct Course {
    const Options& options;
    std::string data;
    std::string device;
    const std::atomic<int>& stop;
};

void run_rung(const Course& course, const Rung& rung, std::uint64_t seed, Measured& measured) {
    Recipe recipe = experiment(course.options, course.data);
    recipe.seed = seed;
    rung.set_up(recipe);
    Trainer trainer(recipe, open_data(recipe.data), nullptr, rung.kernel);
    FitOptions fit;
    fit.interrupt = &course.stop;
    const TrainResult result = trainer.fit(fit);
    check_interrupt();
    double seconds = 0;
    for (const auto& epoch : result.epochs) {
        seconds += epoch.seconds;
    }
    measured.seconds.push_back(seconds);
    measured.accuracy.push_back(result.epochs.back().val_accuracy.value_or(0));
}

void run_theirs(const Course& course, const std::string& rung, std::uint64_t seed, Measured& measured) {
    const PeerRun run{
        .rung = rung, .data = course.data, .device = course.device, .epochs = course.options.epochs, .seed = seed};
    const PeerFigures figures = run_peer(course.options.peer_program, run, course.stop);
    check_interrupt();
    measured.seconds.push_back(figures.seconds);
    measured.accuracy.push_back(figures.accuracy);
}

void run_rounds(const Course& course, const std::vector<Rung>& rungs, std::vector<Measured>& ours,
                std::vector<Measured>& theirs) {
    const std::int64_t rounds = course.options.rounds;
    for (std::int64_t round = 0; round < rounds; ++round) {
        const auto seed = static_cast<std::uint64_t>(round);
        for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
            if (i < ours.size()) {
                ours[i].name = rungs[i].name;
                fmt::print(stderr, "round {}/{}: stoker, {}\n", round + 1, rounds, ours[i].name);
                run_rung(course, rungs[i], seed, ours[i]);
            }
            if (i < theirs.size()) {
                theirs[i].name = peer_rungs()[i];
                fmt::print(stderr, "round {}/{}: {}\n", round + 1, rounds, theirs[i].name);
                run_theirs(course, theirs[i].name, seed, theirs[i]);
            }
        }
    }
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

void print_rows(const Json& rungs, const std::string& side) {
    for (const auto& rung : rungs) {
        fmt::print("{:<44} {:>9.2f} {:>12.3f} {:>8.2f}x {:>8.2f} %\n", side + rung["name"].get<std::string>(),
                   rung["seconds"].get<double>(), rung["epoch_seconds"].get<double>(), rung["speedup"].get<double>(),
                   100 * rung["accuracy"].get<double>());
    }
}

void report(const Options& options, const std::vector<Measured>& ours, const std::vector<Measured>& theirs) {
    const Json ours_json = to_json(ours, median(ours.front().seconds), options.epochs);
    const Json theirs_json =
        theirs.empty() ? Json::array() : to_json(theirs, median(theirs.front().seconds), options.epochs);
    if (options.json) {
        Json document = {
            {"data", options.data}, {"epochs", options.epochs}, {"rounds", options.rounds}, {"rungs", ours_json}};
        if (options.peer) {
            document["peer"] = theirs_json;
        }
        fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
        return;
    }
    fmt::print("{:<44} {:>9} {:>12} {:>9} {:>10}\n", "rung", "seconds", "s an epoch", "speed-up", "accuracy");
    print_rows(ours_json, "stoker ");
    print_rows(theirs_json, "");  // their names begin with python
    if (options.peer) {
        fmt::print("\nour last rung against Python's first: {:.1f}x; against Python in memory: {:.2f}x\n",
                   median(theirs.front().seconds) / median(ours.back().seconds),
                   median(theirs.back().seconds) / median(ours.back().seconds));
    }
}

int run(const Options& options) {
    const at::Device device = pick_device(options.device);
    return until_interrupted([&](const std::atomic<int>& stop) {
        std::optional<SharedData> shared;
        if (options.peer) {
            check_peer(options.peer_program);
            shared.emplace(options.data);
        }
        std::vector<Rung> rungs = ladder();
        if (!device.is_cuda() || !cuda_built()) {
            // Without a GPU, or the CUDA code that makes pinned memory, that rung does not exist.
            std::erase_if(rungs, [](const Rung& rung) { return rung.gpu_only; });
        }
        std::vector<Measured> ours(rungs.size());
        std::vector<Measured> theirs(options.peer ? peer_rungs().size() : 0);
        const Course course{options, shared ? shared->path() : options.data, device.str(), stop};
        run_rounds(course, rungs, ours, theirs);
        report(options, ours, theirs);
        return 0;
    });
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
    app.add_flag("--peer", options->peer,
                 "run plain Python PyTorch in turn with ours (synth:digits or an IDX directory)");
    app.add_option("--python", options->peer_program.python, "the interpreter with torch and torchvision for --peer")
        ->capture_default_str();
    app.add_option("--peer-script", options->peer_program.script, "the peer's script")->capture_default_str();
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app,
            "  stoker bench ladder --data synth:digits\n"
            "  stoker bench ladder --data data/mnist --peer --rounds 3");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
