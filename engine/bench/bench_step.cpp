// stoker bench step: times one training step of a model without loading data; with --peer also in Python PyTorch. They
// take turns round by round, so that a change of the machine's speed affects both.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench/bench_stats.h"
#include "cli/bench/python_peer.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "stoker/base/cpu_cores.h"
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
    PythonPeer python = {.script = "bench/peers/step_pytorch.py"};
    bool json = false;
};

constexpr std::int64_t kClasses = 10;

// A model, its optimizer and a random batch.
class Training {
  public:
    explicit Training(const Options& options)
        : model_(create_model(options)),
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

    // Runs steps for `seconds` and returns the median milliseconds of a step.
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

    static std::unique_ptr<Model> create_model(const Options& options) {
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

double measure_python(const Options& options, const std::atomic<int>& stop) {
    const auto document =
        run_python_peer(options.python,
                        {"--model", options.model, "--size", std::to_string(options.size), "--batch",
                         std::to_string(options.batch), "--precision", options.precision, "--threads",
                         std::to_string(at::get_num_threads()), "--seconds", std::to_string(options.seconds)},
                        stop);
    return document.at("milliseconds").get<double>();
}

void report(const Options& options, const std::vector<double>& stoker_ms, const std::vector<double>& python_ms) {
    Json document = {{"model", options.model},
                     {"size", options.size},
                     {"batch", options.batch},
                     {"precision", options.precision},
                     {"threads", at::get_num_threads()},
                     {"milliseconds", median(stoker_ms)},
                     {"rounds", stoker_ms}};
    if (options.peer) {
        document["peer"] = {{"name", "python"}, {"milliseconds", median(python_ms)}, {"rounds", python_ms}};
        document["ratio"] = median(stoker_ms) / median(python_ms);
    }
    if (options.json) {
        print_document(document);
        return;
    }
    fmt::print("{}, {} of {} px, {}, {}: {:.1f} ms per step\n", options.model, pluralize(options.batch, "image"),
               options.size, options.precision, pluralize(at::get_num_threads(), "thread"), median(stoker_ms));
    if (options.peer) {
        fmt::print("Python PyTorch: {:.1f} ms; Stoker takes {:.0f} % of that time\n", median(python_ms),
                   100 * median(stoker_ms) / median(python_ms));
    }
}

int run(const Options& options) {
    if (options.peer) {
        check_python_peer(options.python);
    }
    at::set_num_threads(options.threads > 0 ? options.threads : cpu_cores().usable);
    return run_interruptible([&](const std::atomic<int>& stop) {
        Training training(options);
        std::vector<double> stoker_ms;
        std::vector<double> python_ms;
        for (int round = 0; round < options.rounds; ++round) {
            fmt::print(stderr, "round {}/{}\n", round + 1, options.rounds);
            stoker_ms.push_back(training.measure(options.seconds));
            if (options.peer) {
                python_ms.push_back(measure_python(options, stop));
            }
        }
        report(options, stoker_ms, python_ms);
        return 0;
    });
}

}  // namespace

Command add_bench_step(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--model", options->model, "a built-in model for RGB images")
        ->capture_default_str()
        ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "vit_s_16"}));
    add_number(app, "--size", options->size, "height and width of an image", 16, 1024);
    add_number(app, "--batch", options->batch, "images per step", 2, 4096);
    app.add_option("--precision", options->precision, "fp32 or bf16")
        ->capture_default_str()
        ->check(CLI::IsMember({"fp32", "bf16"}));
    add_number(app, "--threads", options->threads, "LibTorch's threads; 0: one per usable core", 0, 1024);
    add_number(app, "--rounds", options->rounds, "number of measurements; medians are reported", 1, 100);
    add_number(app, "--seconds", options->seconds, "seconds per round", 0.01, 600.0);
    app.add_flag("--peer", options->peer, "measure the same step in Python PyTorch in turn with Stoker");
    app.add_option("--python", options->python.python, "the Python interpreter for --peer, with torch and torchvision")
        ->capture_default_str();
    app.add_option("--peer-script", options->python.script, "the script for --peer")->capture_default_str();
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app, "  stoker bench step --model resnet18 --size 224 --precision bf16 --peer");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
