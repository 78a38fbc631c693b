// Runs of a small model of training: workers make batches, a ring holds them, a training thread takes them. Costs have
// noise that lasts over several steps, and each run has another speed. Tests plant a cause by changing a setting of the
// model, which does not know the comparison's table.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "stoker/diagnose/run_reader.h"
#include "stoker/records/records_json.h"

namespace stoker {

struct MadeUpTraining {
    // Settings and machine.
    int workers = 4;
    int prefetch = 4;
    int batch = 64;
    double cores = 8;
    std::string precision = "bf16";
    bool channels_last = true;
    std::string torch = "2.11.0";
    std::string processor = "Xeon";
    std::string storage = "NVMe SSD";
    std::string train_ops = "[{op = random_resized_crop, size = 224}, {op = flip}]";
    int checkpoint_every = 500;  // steps
    int evaluate_every = 4;      // epochs
    int steps_per_epoch = 100;
    bool item_each_step = false;
    double others = 0.02;  // of the cores' time
    // Microseconds.
    double read = 60, pixels = 500, augment = 200;       // of a worker for a sample
    double forward = 110, backward = 200;                // for a sample
    double forward_fixed = 1500, backward_fixed = 2500;  // for a step
    double optimizer = 900, unmeasured = 300, copy = 200;
    double step_factor = 1;  // of forward and backward: another release, precision, layout
    double stalls = 0;       // the chance that a batch is late by 60 ms
    // Noise.
    int steps = 1200;
    double noise = 0.06;          // standard deviation of a step's costs
    double lasting = 0.8;         // how much of it the next step keeps
    double between_runs = 0.004;  // of the run's own speed
    unsigned seed = 1;
};

class TrainingModel {
  public:
    explicit TrainingModel(const MadeUpTraining& plan)
        : plan_(plan), random_(plan.seed), speed_(std::exp(plan.between_runs * normal_(random_))) {
        // Threads that are ready to run share the cores that others leave.
        const double free = plan.cores * (1 - plan.others);
        slow_ = speed_ * std::max(1.0, (plan.workers + 1) / free);
    }

    RankRecords run() {
        rank_.facts = facts();
        done_.assign(static_cast<std::size_t>(plan_.workers), 0);
        for (int step = 1; step <= plan_.steps; ++step) {
            add_step(step);
            if (step % kInterval == 0) {
                end_interval(step);
            }
            if (step % (plan_.evaluate_every * plan_.steps_per_epoch) == 0) {
                EvaluationEntry evaluation{.step = step, .samples = 1000};
                set(evaluation.host, Phase::forward, 1.2e6 * speed_ * (1 + 0.03 * normal_(random_)));
                rank_.evaluations.push_back(evaluation);
            }
        }
        return rank_;
    }

  private:
    static constexpr int kInterval = 50;

    RunFacts facts() const {
        RunFacts facts{.writer = "stoker"};
        facts.software = {.stoker = "0.1.0", .torch = plan_.torch};
        facts.host = {.cores = plan_.cores,
                      .affinity = static_cast<int>(plan_.cores),
                      .ranks = 1,
                      .memory_bytes = std::int64_t{32} << 30,
                      .processor = plan_.processor};
        facts.data = {.path = "photos",
                      .format = "image folder",
                      .codec = "jpeg",
                      .storage = plan_.storage,
                      .samples = std::int64_t{64} * 100,
                      .sample_bytes = 100e3,
                      .image_bytes = 150528.0};
        facts.data.workers = plan_.workers;
        facts.data.prefetch = plan_.prefetch;
        facts.train = {.model = "resnet18",
                       .parameters = 11'000'000,
                       .batch_size = plan_.batch,
                       .steps_per_epoch = plan_.steps_per_epoch * 64 / plan_.batch,
                       .val_samples = 1000,
                       .epochs_per_evaluation = plan_.evaluate_every,
                       .precision = plan_.precision,
                       .optimizer = "sgd",
                       .optimizer_kernel = "fused",
                       .threads = 4};
        return facts;
    }

    double noisy() {
        state_ = plan_.lasting * state_ + std::sqrt(1 - plan_.lasting * plan_.lasting) * normal_(random_);
        return std::exp(plan_.noise * state_);
    }

    static void set(StepRecord& record, Phase phase, double us) {
        record.times[static_cast<std::size_t>(phase)] = std::chrono::nanoseconds(std::llround(1e3 * us));
    }

    // The time at which batch `step` is ready. It may begin when the batch `prefetch` before it was taken.
    double ready_at(int step) {
        const double room = step > plan_.prefetch ? taken_[static_cast<std::size_t>(step - plan_.prefetch - 1)] : 0;
        const auto worker = std::ranges::min_element(done_);
        const double begin = std::max(*worker, room);
        const double factor = slow_ * noisy() * plan_.batch;
        workers_[Stage::blocked] += std::chrono::nanoseconds(std::llround(1e3 * (begin - *worker)));
        for (const auto& [stage, us] : {std::pair(Stage::read, plan_.read), std::pair(Stage::pixels, plan_.pixels),
                                        std::pair(Stage::augment, plan_.augment)}) {
            workers_[stage] += std::chrono::nanoseconds(std::llround(1e3 * us * factor));
            workers_.cpu += std::chrono::nanoseconds(
                std::llround(stage == Stage::read ? 100 * us * factor : 1e3 * us * factor / slow_));
        }
        workers_.samples += plan_.batch;
        *worker = begin + (plan_.read + plan_.pixels + plan_.augment) * factor;
        const bool late = plan_.stalls > 0 && std::uniform_real_distribution<>()(random_) < plan_.stalls;
        return *worker + (late ? 60e3 : 0);
    }

    void add_step(int number) {
        StepEntry step{.step = number, .epoch = 1 + (number - 1) / plan_.steps_per_epoch, .samples = plan_.batch};
        const double ready = ready_at(number);
        const double wait = std::max(0.0, ready - now_);
        const double cost = slow_ * noisy();
        const double forward = plan_.step_factor * (plan_.forward_fixed + plan_.forward * plan_.batch);
        const double backward = plan_.step_factor * (plan_.backward_fixed + plan_.backward * plan_.batch);
        set(step.host, Phase::wait, wait);
        set(step.host, Phase::copy, plan_.copy * cost);
        set(step.host, Phase::forward, forward * cost);
        set(step.host, Phase::backward, backward * cost);
        set(step.host, Phase::optimizer, plan_.optimizer * cost);
        set(step.host, Phase::unmeasured, plan_.unmeasured * cost);
        if (plan_.item_each_step) {
            const double us = 4000 * cost;
            set(step.host, Phase::sync, us);
            sync_us_ += us;
        }
        if (number % plan_.checkpoint_every == 0) {
            set(step.host, Phase::checkpoint, 400e3 * (1 + 0.05 * normal_(random_)));
        }
        taken_.push_back(now_ + wait);
        now_ += 1e-3 * static_cast<double>(step.host.total().count());
        rank_.steps.push_back(step);
    }

    void end_interval(int step) {
        IntervalEntry interval{.first_step = step - kInterval + 1, .last_step = step, .seconds = (now_ - since_) / 1e6};
        for (auto entry = rank_.steps.end() - kInterval; entry != rank_.steps.end(); ++entry) {
            std::ranges::transform(interval.host.times, entry->host.times, interval.host.times.begin(), std::plus());
        }
        interval.workers = workers_;
        const double wait = seconds_of_phase(interval.host, Phase::wait);
        const double busy =
            std::min(plan_.cores * (1 - plan_.others),
                     (1e-9 * static_cast<double>(workers_.cpu.count()) + interval.seconds - wait) / interval.seconds);
        interval.user_seconds = busy * interval.seconds;
        interval.system_seconds = 0;
        interval.busy_share = std::min(1.0, busy / plan_.cores + plan_.others);
        if (plan_.item_each_step) {
            interval.syncs = {{.place = "train.py:41", .count = kInterval, .us = sync_us_}};
        }
        rank_.intervals.push_back(interval);
        workers_ = {};
        sync_us_ = 0;
        since_ = now_;
    }

    static double seconds_of_phase(const StepRecord& record, Phase phase) {
        return 1e-9 * static_cast<double>(record.times[static_cast<std::size_t>(phase)].count());
    }

    MadeUpTraining plan_;
    std::mt19937 random_;
    std::normal_distribution<double> normal_;
    double speed_ = 1;
    double slow_ = 1;
    double state_ = 0;
    double now_ = 0;  // microseconds
    double since_ = 0;
    double sync_us_ = 0;
    std::vector<double> done_;
    std::vector<double> taken_;
    StageTimes workers_;
    RankRecords rank_;
};

// A run folder as `stoker train` writes it: metrics.jsonl and recipe.toml.
inline void write_run(const std::filesystem::path& folder, const MadeUpTraining& plan) {
    std::filesystem::create_directories(folder);
    const RankRecords rank = TrainingModel(plan).run();
    std::ofstream lines(folder / "metrics.jsonl");
    lines << to_json_line(rank.facts, 0) << "\n";
    for (const StepEntry& step : rank.steps) {
        lines << to_json_line(step, 0) << "\n";
    }
    for (const IntervalEntry& interval : rank.intervals) {
        lines << to_json_line(interval, 0) << "\n";
    }
    for (const EvaluationEntry& evaluation : rank.evaluations) {
        lines << to_json_line(evaluation, 0) << "\n";
    }
    std::ofstream(folder / "recipe.toml")
        << "[data]\ntrain = \"photos\"\ntrain_ops = \"" << plan.train_ops << "\"\nworkers = " << plan.workers
        << "\nprefetch = " << plan.prefetch << "\nbatch_size = " << plan.batch << "\n[train]\nprecision = \""
        << plan.precision << "\"\nchannels_last = " << (plan.channels_last ? "true" : "false")
        << "\ncheckpoint_every = \"" << plan.checkpoint_every << " steps\"\nevaluate_every = " << plan.evaluate_every
        << "\n";
}

// Written and read back.
inline RunRecords recorded(const std::filesystem::path& folder, const MadeUpTraining& plan) {
    write_run(folder, plan);
    return read_run_records(folder);
}

}  // namespace stoker
