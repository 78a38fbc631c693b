// stoker bench step: what one training step of a model takes, data aside; with --peer the same step in Python PyTorch,
// round by round in turn, so that a machine that changes speed changes it for both.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench/figures.h"
#include "cli/terminal/interrupt.h"
#include "engine/bench/peer.h"
#include "engine/commands.h"
#include "stoker/base/core_budget.h"
#include "stoker/base/pluralize.h"
#include "stoker/models/init.h"
#include "stoker/train/step/step.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string model = "resnet18";
    std::int64_t size = 32;
    std::int64_t batch = 32;
    std::string precision = "fp32";
    int threads = 0;
    int rounds = 5;
    double seconds = 3;
    bool peer = false;
    Peer peer_program = {.script = "bench/peers/step_pytorch.py"};
    bool json = false;
};

constexpr std::int64_t kClasses = 10;

// A model with all that trains it, and a batch on the device.
class Training {
  public:
    explicit Training(const Options& options)
        : model_(made(options)),
          optimizer_(model_->parameters(), {.name = "sgd", .lr = kLr, .momentum = 0.9}),
          step_(*model_, optimizer_, account_, at::kCPU, {.precision = choose_precision(options.precision, at::kCPU)}) {
        at::Generator generator = make_generator(1);
        batch_.image = at::randn({options.batch, 3, options.size, options.size}, generator)
                           .contiguous(at::MemoryFormat::ChannelsLast);
        batch_.label = at::arange(options.batch, at::kLong).remainder(kClasses);
        for (int i = 0; i < kWarmUp; ++i) {
            step_.run(batch_, kLr);
        }
    }

    // Median milliseconds of a step, over `seconds` of them.
    double measure(double seconds) {
        using Clock = std::chrono::steady_clock;
        std::vector<double> times;
        const auto begin = Clock::now();
        while (times.size() < 3 || Clock::now() - begin < std::chrono::duration<double>(seconds)) {
            check_interrupt();
            const auto start = Clock::now();
            step_.run(batch_, kLr);
            times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
        }
        return median(times);
    }

  private:
    static constexpr double kLr = 0.01;
    static constexpr int kWarmUp = 3;

    static std::unique_ptr<Model> made(const Options& options) {
        ModelRecipe recipe;
        recipe.name = options.model;
        auto model = make_model(recipe, {3, options.size, options.size}, kClasses, /*seed=*/1);
        model->to(at::kCPU, model->wants_channels_last());
        return model;
    }

    std::unique_ptr<Model> model_;
    Optimizer optimizer_;
    Account account_;
    Step step_;
    DeviceBatch batch_;
};

double ask_python(const Options& options, const std::atomic<int>& stop) {
    const auto document =
        ask_peer(options.peer_program,
                 {"--model", options.model, "--size", std::to_string(options.size), "--batch",
                  std::to_string(options.batch), "--precision", options.precision, "--threads",
                  std::to_string(at::get_num_threads()), "--seconds", std::to_string(options.seconds)},
                 stop);
    return document.at("milliseconds").get<double>();
}

void report(const Options& options, const std::vector<double>& ours, const std::vector<double>& theirs) {
    Json document = {{"model", options.model},
                     {"size", options.size},
                     {"batch", options.batch},
                     {"precision", options.precision},
                     {"threads", at::get_num_threads()},
                     {"milliseconds", median(ours)},
                     {"rounds", ours}};
    if (options.peer) {
        document["peer"] = {{"name", "python"}, {"milliseconds", median(theirs)}, {"rounds", theirs}};
        document["ratio"] = median(ours) / median(theirs);
    }
    if (options.json) {
        fmt::print("{}\n", document.dump(2));
        return;
    }
    fmt::print("{}, {} of {} px, {}, {}: {:.1f} ms a step\n", options.model, pluralize(options.batch, "image"),
               options.size, options.precision, pluralize(at::get_num_threads(), "thread"), median(ours));
    if (options.peer) {
        fmt::print("Python PyTorch: {:.1f} ms; ours takes {:.3f} of it\n", median(theirs),
                   median(ours) / median(theirs));
    }
}

int run(const Options& options) {
    if (options.peer) {
        check_peer(options.peer_program);
    }
    at::set_num_threads(options.threads > 0 ? options.threads : read_core_budget().usable);
    return until_interrupted([&](const std::atomic<int>& stop) {
        Training training(options);
        std::vector<double> ours;
        std::vector<double> theirs;
        for (int round = 0; round < options.rounds; ++round) {
            fmt::print(stderr, "round {}/{}\n", round + 1, options.rounds);
            ours.push_back(training.measure(options.seconds));
            if (options.peer) {
                theirs.push_back(ask_python(options, stop));
            }
        }
        report(options, ours, theirs);
        return 0;
    });
}

}  // namespace

Command add_bench_step(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--model", options->model, "a built-in model of colour images")
        ->capture_default_str()
        ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "vit_s_16"}));
    app.add_option("--size", options->size, "height and width of an image")
        ->capture_default_str()
        ->check(CLI::Range(16, 1024));
    app.add_option("--batch", options->batch, "images a step")->capture_default_str()->check(CLI::Range(2, 4096));
    app.add_option("--precision", options->precision, "fp32 or bf16")
        ->capture_default_str()
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--threads", options->threads, "LibTorch's threads; 0: the cores")
        ->capture_default_str()
        ->check(CLI::Range(0, 1024));
    app.add_option("--rounds", options->rounds, "how often it is measured; medians are reported")
        ->capture_default_str()
        ->check(CLI::Range(1, 100));
    app.add_option("--seconds", options->seconds, "of a round")->capture_default_str()->check(CLI::Range(0.01, 600.0));
    app.add_flag("--peer", options->peer, "take turns with the same step in Python PyTorch");
    app.add_option("--python", options->peer_program.python, "the interpreter with torch and torchvision for --peer")
        ->capture_default_str();
    app.add_option("--peer-script", options->peer_program.script, "the peer's script")->capture_default_str();
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app, "  stoker bench step --model resnet18 --size 224 --precision bf16 --peer");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
