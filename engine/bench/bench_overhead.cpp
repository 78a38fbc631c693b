// stoker bench overhead: the cost of a run's account and of the profiler. One run trains while one of them is switched
// off and on in blocks of equal length, in the order off on on off or on off off on, drawn at random. Four blocks are a
// round, and give one ratio, from which a steady drift of the machine cancels out. The same with a switch that does
// nothing is the control.
#include <csignal>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/other_load.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "cli/terminal/temp_folder.h"
#include "engine/commands.h"
#include "engine/ranks.h"
#include "engine/tune/trial_data.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/base/statistics.h"
#include "stoker/bridge/device.h"
#include "stoker/profile/kineto_session.h"
#include "stoker/records/accounting.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct BenchOverheadArguments {
    double seconds = 60;
    std::vector<double> steps = {1, 10, 100};  // milliseconds
    std::string device = "auto";
    std::string only;  // "account" or "profiler"
    bool json = false;
};

constexpr double kLimit = 0.01;         // the cost that is claimed: the whole interval is below
constexpr double kBlockSeconds = 0.01;  // short: what disturbs the machine for a moment spoils few rounds
constexpr int kLeastSteps = 1;
constexpr int kMostSteps = 50;  // after so many steps losses are read and records written
constexpr int kWarmUpSteps = 10;
constexpr int kLeastRounds = 6;            // fewer have no 95 % interval
constexpr double kCalibrationSeconds = 1;  // at most, and no longer than a measurement

struct BlockTimes {
    std::vector<double> ratios;  // of the time with what is switched to the time without, round by round
    double step_ms = 0;          // without it: the median of the blocks
};

// Runs until `seconds` are over, and calls `set` before each block.
class Blocks {
  public:
    Blocks(double seconds, int steps, std::function<void(bool)> set)
        : seconds_(seconds), steps_(steps), set_(std::move(set)) {}

    // After each step. False once the time is over and there are enough rounds.
    bool step(const at::Device& device) {
        if (warm_up_ > 0) {
            if (--warm_up_ == 0) {
                synchronize(device);
                first_ = Clock::now();
                begin();
            }
            return true;
        }
        if (++done_ < steps_) {
            return true;
        }
        synchronize(device);
        finish();
        const bool over = std::chrono::duration<double>(Clock::now() - first_).count() > seconds_;
        if (over && block_ == 0 && std::ssize(ratios_) >= kLeastRounds) {
            return false;
        }
        begin();
        return true;
    }

    BlockTimes times() const { return {.ratios = ratios_, .step_ms = median(off_ms_)}; }

  private:
    // Blocks come in fours: off on on off, or on off off on.
    bool on() const { return on_first_ != (block_ == 1 || block_ == 2); }

    void begin() {
        if (block_ == 0) {
            on_first_ = rng_.next() % 2 == 0;
            times_ = {};
        }
        set_(on());
        done_ = 0;
        start_ = Clock::now();
    }

    void finish() {
        const std::chrono::duration<double> took = Clock::now() - start_;
        times_[on() ? 1 : 0] += took.count();
        if (!on()) {
            off_ms_.push_back(1e3 * took.count() / steps_);
        }
        if (block_ == 3) {
            ratios_.push_back(times_[1] / times_[0]);
        }
        block_ = (block_ + 1) % 4;
    }

    double seconds_;
    int steps_;
    std::function<void(bool)> set_;
    Rng rng_{RngKey{.seed = 1}};
    Clock::time_point first_ = {};
    Clock::time_point start_ = {};
    std::array<double, 2> times_ = {};  // of the round: off, on
    std::vector<double> ratios_;
    std::vector<double> off_ms_;
    int warm_up_ = kWarmUpSteps;
    int done_ = 0;
    int block_ = 0;
    bool on_first_ = false;
};

enum class Part : std::uint8_t {
    account,   // and the clocks of workers, and the records of intervals
    profiler,  // Kineto as `stoker profile` sets it up, while it records
};

// Trains an MLP on drawn digits, in one epoch without an end and without checkpoints. The time of a step is about
// proportional to the batch. Kineto sees operators; the fused step has none.
Recipe recipe_of(const BenchOverheadArguments& options, Part part, std::int64_t batch) {
    Recipe recipe = endless(parse_recipe(fmt::format("device = \"{}\"\n[data]\ntrain = \"synth:digits?count=4096\"\n"
                                                     "batch_size = {}\nepoch_samples = 200000000\n"
                                                     "workers = 1\ncache = \"ram\"\n"
                                                     "train_ops = [{{op = \"normalize\", preset = \"mnist\"}}]\n",
                                                     options.device, batch),
                                         "bench overhead"));
    recipe.train.checkpoint_every = {.count = recipe.train.epochs, .epochs = true};
    if (part == Part::profiler) {
        recipe.train.compile = "none";
    }
    return recipe;
}

void train(const Recipe& recipe, const std::atomic<int>& stop, const std::function<bool(const at::Device&)>& step) {
    const TempFolder folder("stoker-overhead");
    Trainer trainer(recipe, open_train_data(recipe.data), nullptr, OptimizerKernel::fused, /*resumes=*/false,
                    std::make_shared<Group>());
    std::atomic<int> end = 0;
    trainer.fit({.out = folder.path() / "run",  // the records are also written
                 .on_step =
                     [&](const Progress&) {
                         if (stop != 0 || !step(trainer.device())) {
                             end = SIGTERM;
                         }
                     },
                 .interrupt = &end});
    if (stop != 0) {
        throw Interrupted{stop};
    }
}

// The batch size whose step takes `milliseconds`.
std::int64_t calibrate(const BenchOverheadArguments& options, Part part, double milliseconds,
                       const std::atomic<int>& stop) {
    const std::chrono::duration<double> length(std::min(kCalibrationSeconds, options.seconds));
    std::int64_t batch = 64;
    for (int round = 0; round < 3; ++round) {
        int warm_up = kWarmUpSteps;
        Clock::time_point begin;
        Clock::time_point last;
        std::vector<double> times;
        train(recipe_of(options, part, batch), stop, [&](const at::Device& device) {
            synchronize(device);
            const auto now = Clock::now();
            if (warm_up-- > 0) {
                begin = now;
            } else {
                times.push_back(std::chrono::duration<double, std::milli>(now - last).count());
            }
            last = now;
            return times.empty() || now - begin < length;
        });
        const double factor = milliseconds / median(times);
        batch = std::max<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(batch) * factor), 1);
    }
    return batch;
}

struct OverheadRow {
    Part part = Part::account;
    double milliseconds = 0;  // of a step, as wanted
    std::int64_t batch = 0;
    double step_ms = 0;     // measured, without what the row is about
    Estimate cost = {};     // share of the time: 0.002 is 0.2 %
    Estimate control = {};  // the same without a difference
    std::size_t rounds = 0;
};

Estimate share(const Estimate& ratio) {
    return {.low = ratio.low - 1, .median = ratio.median - 1, .high = ratio.high - 1};
}

BlockTimes run_blocks(const BenchOverheadArguments& options, const OverheadRow& row, const std::atomic<int>& stop,
                      const std::function<void(bool)>& set) {
    const double block_seconds = std::min(kBlockSeconds, options.seconds / (4 * kLeastRounds));
    const int steps = std::clamp(static_cast<int>(1000 * block_seconds / row.milliseconds), kLeastSteps, kMostSteps);
    Blocks blocks(options.seconds, steps, set);
    train(recipe_of(options, row.part, row.batch), stop, [&](const at::Device& device) { return blocks.step(device); });
    return blocks.times();
}

// Kineto starts and ends between the blocks, so that its recording is measured and not the set-up.
class Recording {
  public:
    explicit Recording(const at::Device& device) : session_({.cuda = device.is_cuda()}) {}
    void set(bool on) {
        if (on && !session_.running()) {
            session_.start();
        } else if (!on && session_.running()) {
            Profile events;
            session_.stop(events);
        }
    }

  private:
    KinetoSession session_;
};

// Switches off and on. Afterwards the account is on and nothing is recorded.
BlockTimes switched_blocks(const BenchOverheadArguments& options, const OverheadRow& row,
                           const std::atomic<int>& stop) {
    if (row.part == Part::account) {
        const struct Restore {
            ~Restore() { set_accounting(true); }
        } restore{};
        return run_blocks(options, row, stop, set_accounting);
    }
    Recording recording(pick_device(options.device));
    BlockTimes times = run_blocks(options, row, stop, [&](bool on) { recording.set(on); });
    recording.set(false);
    return times;
}

std::string_view name_of(Part part) {
    return part == Part::account ? "account" : "profiler";
}

void measure(const BenchOverheadArguments& options, OverheadRow& row, const std::atomic<int>& stop) {
    print_stderr("{}: steps of {} ms, batches of {}\n", name_of(row.part), row.milliseconds, row.batch);
    const BlockTimes times = switched_blocks(options, row, stop);
    row.rounds = times.ratios.size();
    row.step_ms = times.step_ms;
    row.cost = share(median_interval(times.ratios));
    row.control = share(median_interval(run_blocks(options, row, stop, [](bool) {}).ratios));
}

std::string percent(const Estimate& estimate) {
    return fmt::format("{:+.2f} % [{:+.2f}, {:+.2f}]", 100 * estimate.median, 100 * estimate.low, 100 * estimate.high);
}

void print_json(const std::vector<OverheadRow>& rows) {
    const auto json = [](const Estimate& estimate) {
        return Json{{"median", estimate.median}, {"interval", {estimate.low, estimate.high}}};
    };
    Json list = Json::array();
    for (const OverheadRow& row : rows) {
        list.push_back({{"part", name_of(row.part)},
                        {"step_ms", row.milliseconds},
                        {"measured_step_ms", row.step_ms},
                        {"batch_size", row.batch},
                        {"rounds", row.rounds},
                        {"cost", json(row.cost)},
                        {"control", json(row.control)},
                        {"below_1_percent", row.cost.high < kLimit}});
    }
    print_document({{"rows", list}});
}

void print_table(const std::vector<OverheadRow>& rows) {
    Table table;
    table.column("", Table::Align::left);
    table.column("step");
    table.column("measured");
    table.column("rounds");
    table.column("cost");
    table.column("control: no difference");
    table.column("", Table::Align::left);
    for (const OverheadRow& row : rows) {
        const std::string_view below = row.cost.high < kLimit ? "below 1 %" : "not shown to be below 1 %";
        table.row({std::string(name_of(row.part)), fmt::format("{} ms", row.milliseconds),
                   fmt::format("{:.2f} ms", row.step_ms), fmt::to_string(row.rounds), percent(row.cost),
                   percent(row.control), row.part == Part::account ? std::string(below) : ""});
    }
    print_lines(table.text());
    print_stdout("Shares of the time of a step: medians of rounds with 95 % intervals.\n");
}

int run(const BenchOverheadArguments& options) {
    require_one_rank("stoker bench overhead");
    return run_interruptible([&](const std::atomic<int>& stop) {
        const OtherLoad load;
        std::vector<OverheadRow> rows;
        for (const Part part : {Part::account, Part::profiler}) {
            for (const double milliseconds : options.steps) {
                if (options.only.empty() || options.only == name_of(part)) {
                    const std::int64_t batch = calibrate(options, part, milliseconds, stop);
                    rows.push_back({.part = part, .milliseconds = milliseconds, .batch = batch});
                    measure(options, rows.back(), stop);
                }
            }
        }
        options.json ? print_json(rows) : print_table(rows);
        load.warn();
        return 0;
    });
}

}  // namespace

Command add_bench_overhead(CLI::App& app) {
    auto options = std::make_shared<BenchOverheadArguments>();
    add_number(app, "--seconds", options->seconds, "seconds of each measurement", 0.1, 3600.0);
    app.add_option("--steps", options->steps, "lengths of the steps in milliseconds")
        ->capture_default_str()
        ->delimiter(',')
        ->check(CLI::Range(0.1, 10'000.0));
    app.add_option("--device", options->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
    app.add_option("--only", options->only, "only this part")
        ->type_name("PART")
        ->check(CLI::IsMember({"account", "profiler"}));
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker bench overhead --seconds 60\n"
            "The account, then the profiler, is switched off and on in turns within one run. The control switches "
            "nothing.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
