#include "stoker/diagnose/rules/run_summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace stoker {
namespace {

void add_shares(const RankRecords& rank, RunSummary& out) {
    out.seconds = seconds_of(out.account.total());
    for (std::size_t i = 0; i < kPhases; ++i) {
        out.share[i] = out.account.share(static_cast<Phase>(i));
    }
    double ready = 0;
    std::int64_t asked = 0;
    for (const StepEntry& step : rank.steps) {
        if (out.judges(step) && step.ready) {
            ready += *step.ready;
            ++asked;
        }
    }
    if (asked > 0) {
        out.ready = ready / static_cast<double>(asked);
    }
}

// A mean over the time in which it was measured.
struct Mean {
    double sum = 0;
    double seconds = 0;

    void add(double value, double during) {
        sum += value;
        seconds += during;
    }
    std::optional<double> value() const { return seconds > 0 ? std::optional(sum / seconds) : std::nullopt; }
};

void add_intervals(const RankRecords& rank, std::int64_t first, RunSummary& out) {
    Mean cpu;
    Mean busy;
    Mean start;
    Mean core_wait;
    // The start of a run, in which workers fill the ring and libraries choose algorithms, is left out where enough
    // follows.
    constexpr double kEnough = 0.2;  // seconds
    constexpr double kShare = 0.1;   // of the time
    double all = 0;
    double later = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        all += interval.seconds;
        later += interval.first_step >= first ? interval.seconds : 0;
    }
    const bool steady = later >= std::max(kEnough, kShare * all);
    for (const IntervalEntry& interval : rank.intervals) {
        if (interval.last_step < first || (steady && interval.first_step < first)) {
            continue;
        }
        if (interval.workers && interval.seconds > 0) {
            out.workers = out.workers.value_or(StageTimes{});
            *out.workers += *interval.workers;
            out.worker_span += interval.seconds;
        }
        start.add(interval.start_us.value_or(0) / 1e6, interval.seconds);
        core_wait.add(interval.core_wait_us.value_or(0) / 1e6, interval.seconds);
        constexpr double kLongEnough = 0.2;  // seconds: the host counts in ticks of 10 ms
        if (interval.seconds < kLongEnough) {
            continue;
        }
        if (interval.user_seconds && interval.system_seconds) {
            cpu.add(*interval.user_seconds + *interval.system_seconds, interval.seconds);
        }
        if (interval.busy_share) {
            busy.add(*interval.busy_share * interval.seconds, interval.seconds);
        }
    }
    out.process_cores = cpu.value();
    out.busy_share = busy.value();
    out.start_share = std::clamp(start.value().value_or(0), 0.0, 1.0);
    out.core_wait_share = std::clamp(core_wait.value().value_or(0), 0.0, 1.0);
}

// A sample that finds the GPU done later than `soon` does not count.
void add_gpu_samples(const RankRecords& rank, std::int64_t first, RunSummary& out) {
    constexpr double kSoon = 0.1;  // of a micro-batch
    constexpr int kEnough = 4;
    const double soon = kSoon * 1e6 * out.median_step / micro_batches(rank);
    int busy = 0;
    int done = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        if (interval.last_step >= first) {
            done += interval.gpu_done_us && *interval.gpu_done_us <= soon ? 1 : 0;
            busy += interval.gpu_busy_us ? 1 : 0;
        }
    }
    if (done >= kEnough) {
        out.gpu_done_share = static_cast<double>(done) / (done + busy);
    }
}

// For intervals that are too short for counters: a CPU's cores are all busy if the workers' CPU time and the training
// thread's time without waits, which is one core at least, fill them.
void find_full_cores(RunSummary& out) {
    if (!out.on_cpu || !out.cores || out.busy_share || out.process_cores || out.worker_span <= 0) {
        return;
    }
    const double training = 1 - out.of(Phase::wait) - out.of(Phase::communication);
    if (out.worker_cpu() / out.worker_span + training >= *out.cores) {
        out.process_cores = out.cores;
        out.busy_share = 1;
    }
}

}  // namespace

double RunSummary::worker_seconds(Stage stage) const {
    return workers ? seconds_of((*workers)[stage]) : 0;
}

double RunSummary::worker_busy() const {
    return worker_seconds(Stage::read) + worker_seconds(Stage::entropy) + worker_seconds(Stage::pixels) +
           worker_seconds(Stage::augment);
}

double RunSummary::worker_cpu() const {
    return workers ? seconds_of(workers->cpu) : 0;
}

std::optional<double> RunSummary::blocked_share() const {
    const double all = worker_busy() + worker_seconds(Stage::blocked);
    return all > 0 ? std::optional(worker_seconds(Stage::blocked) / all) : std::nullopt;
}

std::optional<double> RunSummary::free_cores() const {
    if (!cores || !busy_share) {
        return std::nullopt;
    }
    return *cores * std::max(0.0, 1 - *busy_share);
}

RunSummary summarize(const RankRecords& rank) {
    RunSummary out{judged_steps(rank)};
    out.on_cpu = rank.facts.device.type == "cpu";
    add_shares(rank, out);
    add_intervals(rank, out.first_step, out);
    add_gpu_samples(rank, out.first_step, out);
    if (rank.facts.host.cores) {
        constexpr double kMost = 1e5;
        out.cores = std::clamp(*rank.facts.host.cores, 0.01, kMost) / std::max(1, rank.facts.host.ranks.value_or(1));
        // If a quota grants less than the affinity, the counters of the cores do not show how much is left.
        if (out.process_cores && *rank.facts.host.cores < rank.facts.host.affinity.value_or(0)) {
            out.busy_share = std::min(1.0, *out.process_cores / *out.cores);
        }
    }
    find_full_cores(out);
    return out;
}

RunView::RunView(const RunRecords& run) : kind(run.kind), ranks(run.ranks), recipe(run.recipe) {
    summaries_.reserve(ranks.size());
    for (const RankRecords& rank : ranks) {
        summaries_.push_back(summarize(rank));
    }
}

const RankRecords& RunView::rank(int number) const {
    return *std::ranges::find(ranks, number, [](const RankRecords& rank) { return rank.facts.rank; });
}

bool RunView::sets(const std::string& key, std::string_view value) const {
    const auto found = recipe.find(key);
    return found != recipe.end() && found->second == value;
}

bool in_python(const RankRecords& rank) {
    return rank.facts.writer == kPythonWriter;
}

int micro_batches(const RankRecords& rank) {
    constexpr int kMost = 1 << 20;
    return std::clamp(rank.facts.train.accumulate.value_or(1), 1, kMost);
}

bool is_packed(const RankRecords& rank) {
    return rank.facts.data.format == "stk";
}

double thread_speedup(const RankRecords& rank) {
    return std::clamp(rank.facts.train.thread_speedup.value_or(1), 0.001, 1.0);
}

// What PyTorch 2.11 has. On a CPU, for 60 tensors of 64 x 64, `foreach` took 0.60 to 0.83 of the time with RAdam,
// RMSprop, NAdam and Adamax, and 0.95 to 1.4 with Rprop, Adagrad, Adadelta and ASGD.
std::string_view faster_kernel(const RankRecords& rank) {
    constexpr std::array<std::string_view, 4> kFused = {"", "SGD", "Adam", "AdamW"};
    constexpr std::array<std::string_view, 4> kForeach = {"RMSprop", "Adamax", "NAdam", "RAdam"};
    constexpr std::array<std::string_view, 4> kForeachOnGpu = {"Adagrad", "Adadelta", "ASGD", "Rprop"};
    const std::string& name = rank.facts.train.optimizer;
    const bool on_gpu = rank.facts.device.type == "cuda";
    const auto is_of = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
    if (is_of(kFused) || (name == "Adagrad" && !on_gpu)) {
        return "fused";
    }
    return is_of(kForeach) || (on_gpu && is_of(kForeachOnGpu)) ? "foreach" : "";
}

bool is_half(std::string_view types) {
    return types.find("Half") != std::string_view::npos || types.find("BFloat16") != std::string_view::npos;
}

double lost_to_extra_workers(const RankRecords& rank, const RunSummary& run) {
    constexpr double kFactor = 2;
    constexpr int kUsual = 4;
    const int workers = rank.facts.data.workers.value_or(0);
    const bool too_many = run.cores && workers >= kUsual && workers > kFactor * *run.cores;
    return too_many && in_python(rank) ? std::min(1.0, run.start_share + run.core_wait_share) : 0;
}

Gain gain_of_share(double share, double least) {
    constexpr double kMost = 0.99;
    const auto factor = [&](double part) { return 1 / (1 - std::clamp(share * part, 0.0, kMost)); };
    return {.low = factor(least), .expected = factor((1 + least) / 2), .high = factor(1)};
}

}  // namespace stoker
