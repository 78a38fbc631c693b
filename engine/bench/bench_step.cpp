// stoker bench step: times one training step of a model without loading data; with --peer also in Python PyTorch. They
// take turns round by round, so that a change of the machine's speed affects all of them. On a GPU the step runs as a
// CUDA graph and eagerly, and Python's also under torch.compile.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/bench/other_load.h"
#include "cli/bench/python_peer.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/statistics.h"
#include "stoker/models/init.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/step.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct BenchStepArguments {
    std::string model = "resnet18";
    std::int64_t size = 32;
    std::int64_t batch = 32;
    std::string precision = "fp32";
    std::string device = "auto";
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
    Training(const BenchStepArguments& options, const at::Device& device, bool compile)
        : device_(device),
          model_(create_model(options, device)),
          optimizer_(model_->parameters(), {.name = "sgd", .lr = kLr, .momentum = 0.9}),
          step_(make_step({*model_,
                           optimizer_,
                           account_,
                           device,
                           {.precision = choose_precision(options.precision, device),
                            .compile = compile,
                            .cudnn_benchmark = true}})) {
        at::Generator generator = make_generator(1);
        batch_.input = at::randn({options.batch, 3, options.size, options.size}, generator)
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .to(device);
        batch_.target = at::arange(options.batch, at::kLong).remainder(kClasses).to(device);
        run(kWarmUp);
    }

    // Runs steps for `seconds` and returns the median milliseconds of a step. A GPU runs behind the host, so there the
    // clock is read after several steps, when the device has finished.
    double measure(double seconds) {
        const int steps = device_.is_cpu() ? 1 : kStepsAtOnce;
        std::vector<double> times;
        const auto begin = Clock::now();
        while (times.size() < 3 || Clock::now() - begin < std::chrono::duration<double>(seconds)) {
            check_interrupt();
            const auto start = Clock::now();
            run(steps);
            times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() / steps);
        }
        return median(times);
    }

    std::string compiled() const { return step_->compiled(); }

  private:
    static constexpr double kLr = 0.01;
    static constexpr int kWarmUp = 5;  // a graph is captured in the fourth step
    static constexpr int kStepsAtOnce = 20;

    static std::unique_ptr<Model> create_model(const BenchStepArguments& options, const at::Device& device) {
        ModelRecipe recipe;
        recipe.name = options.model;
        auto model = make_model(recipe, {3, options.size, options.size}, kClasses, /*seed=*/1);
        model->to(device, model->wants_channels_last());
        return model;
    }

    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            step_->run(batch_, kLr);
        }
        step_->take_losses();  // waits for the device
    }

    at::Device device_;
    std::unique_ptr<Model> model_;
    Optimizer optimizer_;
    Account account_;
    std::unique_ptr<Step> step_;
    DeviceBatch batch_;
};

// One way to run the step.
struct StepRow {
    std::string name;
    std::function<double()> measure;  // one round, in milliseconds per step
    std::vector<double> rounds = {};
};

StepRow stoker_row(const BenchStepArguments& options, const at::Device& device, bool compile) {
    auto training = std::make_shared<Training>(options, device, compile);
    return {.name = device.is_cpu() ? "stoker" : "stoker " + training->compiled(),
            .measure = [training, &options] { return training->measure(options.seconds); }};
}

// `mode` is "none" or a mode of torch.compile.
StepRow python_row(const BenchStepArguments& options, const at::Device& device, const std::string& mode,
                   const std::atomic<int>& stop) {
    const auto measure = [&options, &stop, mode, device] {
        const auto document = run_python_peer(
            options.python,
            {"--model", options.model, "--size", std::to_string(options.size), "--batch", std::to_string(options.batch),
             "--precision", options.precision, "--threads", std::to_string(at::get_num_threads()), "--seconds",
             std::to_string(options.seconds), "--device", device.str(), "--compile", mode},
            stop);
        return document.at("milliseconds").get<double>();
    };
    return {.name = mode == "none" ? "python" : "python compile " + mode, .measure = measure};
}

std::vector<StepRow> make_rows(const BenchStepArguments& options, const at::Device& device,
                               const std::atomic<int>& stop) {
    std::vector<StepRow> rows = {stoker_row(options, device, /*compile=*/true)};
    if (device.is_cuda()) {
        rows.push_back(stoker_row(options, device, /*compile=*/false));
    }
    if (options.peer) {
        rows.push_back(python_row(options, device, "none", stop));
    }
    if (options.peer && device.is_cuda()) {
        rows.push_back(python_row(options, device, "default", stop));
        rows.push_back(python_row(options, device, "reduce-overhead", stop));
    }
    return rows;
}

void report(const BenchStepArguments& options, const at::Device& device, const std::vector<StepRow>& rows) {
    const double first = median(rows.front().rounds);
    const auto rate = [&](const StepRow& row) {
        return 1000 * static_cast<double>(options.batch) / median(row.rounds);
    };
    if (options.json) {
        Json list = Json::array();
        for (const StepRow& row : rows) {
            list.push_back({{"name", row.name},
                            {"milliseconds", median(row.rounds)},
                            {"images_per_second", rate(row)},
                            {"time_ratio", median(row.rounds) / first},
                            {"rounds", row.rounds}});
        }
        print_document(Json{{"model", options.model},
                            {"size", options.size},
                            {"batch", options.batch},
                            {"precision", options.precision},
                            {"device", device.str()},
                            {"threads", at::get_num_threads()},
                            {"rows", list}});
        return;
    }
    print_stdout("{}, {} of {} px, {}, {}, {}\n", options.model, pluralize(options.batch, "image"), options.size,
                 options.precision, device.str(), pluralize(at::get_num_threads(), "thread"));
    print_stdout("{:<36} {:>12} {:>12} {:>14}\n", "", "ms per step", "images/s", "time ratio");
    for (const StepRow& row : rows) {
        print_stdout("{:<36} {:>12.2f} {:>12.0f} {:>13.2f}x\n", row.name.substr(0, 36), median(row.rounds), rate(row),
                     median(row.rounds) / first);
    }
}

int run(const BenchStepArguments& options) {
    if (options.peer) {
        check_python_peer(options.python);
    }
    Recipe recipe;
    recipe.device = options.device;
    recipe.train.precision = options.precision;
    recipe.train.threads = options.threads > 0 ? options.threads : cpu_cores().usable;
    const at::Device device = prepare_device(recipe);
    return run_interruptible([&](const std::atomic<int>& stop) {
        std::vector<StepRow> rows = make_rows(options, device, stop);
        const OtherLoad load;
        for (int round = 0; round < options.rounds; ++round) {
            for (StepRow& row : rows) {
                print_stderr("round {}/{}: {}\n", round + 1, options.rounds, row.name);
                row.rounds.push_back(row.measure());
            }
        }
        report(options, device, rows);
        load.warn();
        return 0;
    });
}

}  // namespace

Command add_bench_step(CLI::App& app) {
    auto options = std::make_shared<BenchStepArguments>();
    app.add_option("--model", options->model, "a built-in model for RGB images")
        ->capture_default_str()
        ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "vit_s_16"}));
    add_number(app, "--size", options->size, "height and width of an image", 16, 1024);
    add_number(app, "--batch", options->batch, "images per step", 2, 4096);
    app.add_option("--precision", options->precision, "fp32 or bf16")
        ->capture_default_str()
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--device", options->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
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
