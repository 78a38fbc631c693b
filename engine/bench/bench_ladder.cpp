// stoker bench ladder: Stoker's rungs run in this process, Python's in child processes. They take turns round by round,
// so that a change of the machine's speed affects both. Medians over the rounds are reported.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench/other_load.h"
#include "cli/bench/python_peer.h"
#include "cli/commands/mnist_files.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/temp_folder.h"
#include "engine/commands.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/statistics.h"
#include "stoker/base/url_secrets.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchLadderArguments {
    std::string data = "synth:digits";
    std::int64_t epochs = 5;
    int rounds = 1;
    bool peer = false;
    PythonPeer python = {.script = "bench/peers/mnist_pytorch.py"};
    std::string device = "auto";
    bool json = false;
};

struct Rung {
    std::string name;
    int workers = 0;
    bool pin_memory = false;
    const char* cache = "none";
    OptimizerKernel kernel = OptimizerKernel::single_tensor;
    const char* compile = "none";
    bool gpu_only = false;
};

struct Measured {
    std::string name;
    std::vector<double> seconds;  // of all epochs, one value per round
    std::vector<double> accuracy;
};

Recipe base_recipe(const BenchLadderArguments& options, const std::string& data) {
    Recipe recipe;
    recipe.device = options.device;
    recipe.data.train = data;
    recipe.data.batch_size = 64;
    recipe.data.train_ops = {{.name = "normalize", .options = {{"preset", "mnist"}}, .where = "ladder"}};
    recipe.data.val_ops = recipe.data.train_ops;
    recipe.train.epochs = options.epochs;
    return recipe;
}

// Each rung includes the techniques of the previous ones.
std::vector<Rung> ladder() {
    const int workers = std::max(cpu_cores().usable, 1);
    Rung rung{.name = "one thread"};
    std::vector<Rung> rungs = {rung};
    const auto add = [&](const std::string& name) {
        rung.name = name;
        rungs.push_back(rung);
    };
    rung.workers = workers;
    add(fmt::format("+ {} workers", workers));
    rung.pin_memory = true;
    rung.gpu_only = true;
    add("+ pinned memory, non-blocking copies");
    rung.gpu_only = false;
    rung.cache = "ram";
    add("+ decoded data in memory");
    rung.kernel = OptimizerKernel::fused;
    add("+ fused optimizer");
    rung.compile = "auto";
    add("+ fused step");
    rung.workers = 0;
    add("+ no workers, as the data is in memory");
    return rungs;
}

// Shared by all rungs.
struct Experiment {
    const BenchLadderArguments& options;
    std::string data;
    std::string device;
    const std::atomic<int>& stop;
};

void run_rung(const Experiment& experiment, const Rung& rung, std::uint64_t seed, Measured& measured) {
    Recipe recipe = base_recipe(experiment.options, experiment.data);
    recipe.seed = seed;
    recipe.data.workers = rung.workers;
    recipe.data.pin_memory = rung.pin_memory;
    recipe.data.cache = rung.cache;
    recipe.train.compile = rung.compile;
    Trainer trainer(recipe, open_data(recipe.data), nullptr, rung.kernel);
    FitOptions fit;
    fit.interrupt = &experiment.stop;
    const TrainResult result = trainer.fit(fit);
    check_interrupt();
    double seconds = 0;
    for (const auto& epoch : result.epochs) {
        seconds += epoch.seconds;
    }
    measured.seconds.push_back(seconds);
    measured.accuracy.push_back(result.epochs.back().val_accuracy.value_or(0));
}

// The rungs of the Python script, from data loading in one process to all data in memory.
constexpr std::array kPythonRungs = {"python workers=0", "python workers=2", "python workers=8", "python in-memory"};

// The same experiment in plain Python PyTorch, in a child process.
void run_python_rung(const Experiment& experiment, const std::string& rung, std::uint64_t seed, Measured& measured) {
    const PythonPeer& peer = experiment.options.python;
    const auto document =
        run_python_peer(peer,
                        {"--data", experiment.data, "--rung", rung, "--device", experiment.device, "--epochs",
                         std::to_string(experiment.options.epochs), "--seed", std::to_string(seed), "--json"},
                        experiment.stop);
    check_interrupt();
    if (!document.contains("rungs") || document["rungs"].empty()) {
        throw Error(
            {.where = peer.script, .expected = "a JSON document with rungs", .got = json_text(document).substr(0, 80)});
    }
    measured.seconds.push_back(document["rungs"][0].at("seconds").get<double>());
    measured.accuracy.push_back(document["rungs"][0].at("accuracy").get<double>());
}

// Data that Stoker and the Python script can both read: an IDX directory is used in place, synth:digits is written to
// `temporary`. Returns the path; throws InvalidArgument for other data.
std::string shared_data(const std::string& data, std::optional<TempFolder>& temporary) {
    const std::string format(open_dataset(data, Split::train)->format());
    if (format == "idx") {
        return data;
    }
    if (!data.starts_with("synth:digits")) {
        throw InvalidArgument({.where = data, .expected = "IDX files or synth:digits for --peer", .got = format});
    }
    temporary.emplace("stoker-ladder");
    ProgressBar progress;
    for (const Split split : {Split::train, Split::test}) {
        write_mnist_split(*open_dataset(data, split), split, temporary->path(), progress);
    }
    return temporary->path().string();
}

void run_rounds(const Experiment& experiment, const std::vector<Rung>& rungs, std::vector<Measured>& stoker_rungs,
                std::vector<Measured>& python_rungs) {
    const std::int64_t rounds = experiment.options.rounds;
    for (std::int64_t round = 0; round < rounds; ++round) {
        const auto seed = static_cast<std::uint64_t>(round);
        for (std::size_t i = 0; i < std::max(stoker_rungs.size(), python_rungs.size()); ++i) {
            if (i < stoker_rungs.size()) {
                stoker_rungs[i].name = rungs[i].name;
                print_stderr("round {}/{}: stoker, {}\n", round + 1, rounds, stoker_rungs[i].name);
                run_rung(experiment, rungs[i], seed, stoker_rungs[i]);
            }
            if (i < python_rungs.size()) {
                python_rungs[i].name = kPythonRungs[i];
                print_stderr("round {}/{}: {}\n", round + 1, rounds, python_rungs[i].name);
                run_python_rung(experiment, python_rungs[i].name, seed, python_rungs[i]);
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
        print_stdout("{:<44} {:>9.2f} {:>12.3f} {:>8.2f}x {:>8.2f} %\n", side + rung["name"].get<std::string>(),
                     rung["seconds"].get<double>(), rung["epoch_seconds"].get<double>(), rung["speedup"].get<double>(),
                     100 * rung["accuracy"].get<double>());
    }
}

void report(const BenchLadderArguments& options, const std::vector<Measured>& stoker_rungs,
            const std::vector<Measured>& python_rungs) {
    const Json stoker_rungs_json = to_json(stoker_rungs, median(stoker_rungs.front().seconds), options.epochs);
    const Json python_rungs_json = python_rungs.empty()
                                       ? Json::array()
                                       : to_json(python_rungs, median(python_rungs.front().seconds), options.epochs);
    if (options.json) {
        Json document = {{"data", shown_url(options.data)},
                         {"epochs", options.epochs},
                         {"rounds", options.rounds},
                         {"rungs", stoker_rungs_json}};
        if (options.peer) {
            document["peer"] = python_rungs_json;
        }
        print_document(document);
        return;
    }
    print_stdout("{:<44} {:>9} {:>12} {:>9} {:>10}\n", "rung", "seconds", "s/epoch", "speed-up", "accuracy");
    print_rows(stoker_rungs_json, "stoker ");
    print_rows(python_rungs_json, "");  // their names begin with "python"
    if (options.peer) {
        print_stdout("\nspeed-up of Stoker's last rung: {:.1f}x over Python's first, {:.2f}x over Python in memory\n",
                     median(python_rungs.front().seconds) / median(stoker_rungs.back().seconds),
                     median(python_rungs.back().seconds) / median(stoker_rungs.back().seconds));
    }
}

int run(const BenchLadderArguments& options) {
    const at::Device device = pick_device(options.device);
    return run_interruptible([&](const std::atomic<int>& stop) {
        std::optional<TempFolder> temporary;
        std::string data = options.data;
        if (options.peer) {
            check_python_peer(options.python);
            data = shared_data(data, temporary);
        }
        std::vector<Rung> rungs = ladder();
        if (pinned_memory(device) == nullptr) {
            std::erase_if(rungs, [](const Rung& rung) { return rung.gpu_only; });
        }
        std::vector<Measured> stoker_rungs(rungs.size());
        std::vector<Measured> python_rungs(options.peer ? kPythonRungs.size() : 0);
        const Experiment experiment{options, data, device.str(), stop};
        const OtherLoad load;
        run_rounds(experiment, rungs, stoker_rungs, python_rungs);
        report(options, stoker_rungs, python_rungs);
        load.warn();
        return 0;
    });
}

}  // namespace

Command add_bench_ladder(CLI::App& app) {
    auto options = std::make_shared<BenchLadderArguments>();
    app.add_option("--data", options->data, "an IDX directory such as MNIST's, or synth:digits")->capture_default_str();
    add_number(app, "--epochs", options->epochs, "epochs per rung", 1, 1000);
    add_number(app, "--rounds", options->rounds, "number of runs of each rung; medians are reported", 1, 100);
    app.add_option("--device", options->device, "auto, cpu or cuda")->capture_default_str();
    app.add_flag("--peer", options->peer,
                 "run plain Python PyTorch in turn with Stoker (synth:digits or an IDX directory)");
    app.add_option("--python", options->python.python, "the Python interpreter for --peer, with torch and torchvision")
        ->capture_default_str();
    app.add_option("--peer-script", options->python.script, "the script for --peer")->capture_default_str();
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app,
            "  stoker bench ladder --data synth:digits\n"
            "  stoker bench ladder --data data/mnist --peer --rounds 3");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
