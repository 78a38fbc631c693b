// Evaluations and checkpoints, and steps that are too small or uneven.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kRounding = 0.01;

double step_seconds(const RankRecords& rank) {
    double sum = 0;
    for (const StepEntry& step : rank.steps) {
        sum += seconds_of(step.host.total());
    }
    return sum;
}

// The time of evaluations that belongs to the judged steps, which are few in a profile: no more than at
// the rate, by step, from the first evaluation to the last.
double evaluation_seconds(const RankRecords& rank) {
    double all = 0;
    double later = 0;  // than the first
    for (const EvaluationEntry& evaluation : rank.evaluations) {
        const double seconds = seconds_of(evaluation.host.total());
        all += seconds;
        later += evaluation.step > rank.evaluations.front().step ? seconds : 0;
    }
    const std::int64_t span = all > 0 ? rank.evaluations.back().step - rank.evaluations.front().step : 0;
    return span > 0 ? std::min(all, later / static_cast<double>(span) * static_cast<double>(rank.steps.size())) : all;
}

std::optional<Finding> frequent_evaluation(const RunView&, const RankRecords& rank, const RunSummary&) {
    const double evaluating = evaluation_seconds(rank);
    const double all = evaluating + step_seconds(rank);
    constexpr double kWarn = 0.25;
    constexpr double kCritical = 0.5;
    constexpr double kWanted = 0.1;  // the share that is left to evaluations
    const double share = all > 0 ? evaluating / all : 0;
    const auto count = static_cast<double>(rank.evaluations.size());
    if (share < kWarn || count < 2 || rank.steps.empty()) {
        return std::nullopt;
    }
    const double factor = share * (1 - kWanted) / (kWanted * (1 - share));
    // No more than one evaluation is left, because the last epoch is always evaluated.
    const double wanted = std::min(std::ceil(factor - kRounding), count);
    const std::int64_t every =
        static_cast<std::int64_t>(wanted) * std::max(rank.facts.train.epochs_per_evaluation.value_or(1), 1);
    const double saved = share * (1 - 1 / wanted);
    const Severity severity = share >= kCritical ? Severity::critical : Severity::warn;
    return Finding{.severity = severity,
                   .evidence = {{"evaluate_share", share}, {"evaluations", count}},
                   .rank = rank.facts.rank,
                   .gain = gain_of_share(saved, 0.8),
                   .confidence = 0.9,
                   .wanted = every};
}

// The share of the run's whole time if that is known: checkpoints at the ends of epochs are outside of steps.
double checkpoint_share(const RankRecords& rank, const RunSummary& run) {
    return rank.total ? std::max(rank.total->share(Phase::checkpoint), run.of(Phase::checkpoint))
                      : run.of(Phase::checkpoint);
}

struct CheckpointSetting {
    std::int64_t every = 1;
    bool epochs = true;  // else steps
};

std::int64_t steps_with_checkpoint(const RankRecords& rank) {
    return std::ranges::count_if(rank.steps, [](const StepEntry& step) {
        return step.host.times[static_cast<std::size_t>(Phase::checkpoint)].count() > 0;
    });
}

// "200 steps", "1 epoch", which is the default. Without a recipe the steps show it.
CheckpointSetting setting_of(const RunView& records, const RankRecords& rank) {
    CheckpointSetting setting;
    if (const auto text = records.recipe.find("train.checkpoint_every"); text != records.recipe.end()) {
        const char* const end = text->second.data() + text->second.size();
        const auto [stop, error] = std::from_chars(text->second.data(), end, setting.every);
        setting.every = error == std::errc{} ? std::clamp<std::int64_t>(setting.every, 1, 1 << 30) : 1;
        setting.epochs = text->second.find("step") == std::string::npos;
    } else if (const std::int64_t within = steps_with_checkpoint(rank); within > 0) {
        setting = {.every = std::max<std::int64_t>(std::ssize(rank.steps) / within, 1), .epochs = false};
    }
    return setting;
}

// The checkpoints that steps hold, or that the setting asks for if there are more; the last one is written in any case.
double checkpoints_of(const RankRecords& rank, const CheckpointSetting& setting) {
    if (rank.steps.empty()) {
        return 0;
    }
    const std::int64_t done = setting.epochs ? rank.steps.back().epoch : rank.steps.back().step;
    const std::int64_t asked = done / setting.every + (done % setting.every == 0 ? 0 : 1);
    return static_cast<double>(std::max(steps_with_checkpoint(rank), asked));
}

// `times` as many steps or epochs between checkpoints.
CheckpointSetting rarer(const CheckpointSetting& setting, std::int64_t times, std::int64_t steps_per_epoch) {
    const std::int64_t every = setting.every * times;
    if (setting.epochs || steps_per_epoch <= 0 || every < steps_per_epoch) {
        return {.every = every, .epochs = setting.epochs};
    }
    return {.every = (every + steps_per_epoch - 1) / steps_per_epoch};
}

// Models that train.keep_best writes, at most. Each takes as long, whatever train.checkpoint_every is.
double best_models(const RunView& records, const RankRecords& rank) {
    const auto keep = records.recipe.find("train.keep_best");
    return keep == records.recipe.end() || keep->second.empty() ? 0 : static_cast<double>(rank.evaluations.size());
}

std::optional<Finding> frequent_checkpoints(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    const double share = std::min(checkpoint_share(rank, run), 0.999);
    const CheckpointSetting setting = setting_of(records, rank);
    const double count = checkpoints_of(rank, setting);
    constexpr double kInfo = 0.1;
    constexpr double kWarn = 0.2;
    constexpr double kWanted = 0.02;  // the share that is left to checkpoints
    if (share < kInfo || count < 2) {
        return std::nullopt;
    }
    const std::int64_t epoch = rank.facts.train.steps_per_epoch.value_or(0);
    const double times = std::min(std::ceil(share * (1 - kWanted) / (kWanted * (1 - share)) - kRounding), count);
    const CheckpointSetting wanted = rarer(setting, static_cast<std::int64_t>(times), epoch);
    const double governed = share * count / (count + best_models(records, rank));
    return Finding{.severity = share < kWarn ? Severity::info : Severity::warn,
                   .evidence = {{"checkpoint_share", share},
                                {"checkpoints", count},
                                {"steps_per_epoch", static_cast<double>(epoch)}},
                   .rank = rank.facts.rank,
                   .gain = gain_of_share(governed * (1 - 1 / times), 0.7),
                   .confidence = 0.9,
                   .variant = wanted.epochs ? "" : "steps",
                   .wanted = wanted.every};
}

// The part of a step that does not depend on its batch: the update, and everything between the phases.
double fixed_share(const RunSummary& run) {
    return run.of(Phase::optimizer) + run.of(Phase::unmeasured) + run.of(Phase::sync);
}

// The gain of a batch of `larger` instead of `batch` samples. Forward and backward also have a part that does not
// depend on the batch: on CPUs that of about 3 samples, and of up to 9, measured with ConvNet and ResNet-18 on images
// of 16 and 32 pixels.
Gain gain_of_larger_batch(const RunSummary& run, std::int64_t batch, std::int64_t larger) {
    const auto factor = [&](double samples) {
        const double part = samples / (samples + static_cast<double>(batch));
        const double fixed = fixed_share(run) + part * (run.of(Phase::forward) + run.of(Phase::backward));
        return 1 / (1 - fixed * (1 - static_cast<double>(batch) / static_cast<double>(larger)));
    };
    return {.low = factor(0), .expected = factor(3), .high = factor(9)};
}

std::optional<Finding> small_batch(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const std::int64_t all = rank.facts.train.batch_size.value_or(0);
    const std::int64_t batch = all / std::max(1, rank.facts.world_size);
    constexpr std::int64_t kSmall = 16;
    constexpr double kWarn = 0.12;
    // On a GPU the phases are the host's, and their cost is not known without a profile.
    if (all <= 0 || batch > kSmall || !run.on_cpu || fixed_share(run) < kWarn || run.of(Phase::step) > 0) {
        return std::nullopt;
    }
    constexpr std::int64_t kTimes = 8;
    constexpr std::int64_t kSteps = 4;  // that an epoch keeps
    const std::int64_t larger = std::min(kTimes * std::min(all, kSmall * std::max(1, rank.facts.world_size)),
                                         rank.facts.data.samples.value_or(kSteps * kTimes * kSmall) / kSteps);
    if (larger <= all) {
        return std::nullopt;
    }
    return Finding{.severity = Severity::warn,
                   .evidence = {{"batch_size", static_cast<double>(batch)}, {"fixed_share", fixed_share(run)}},
                   .gain = gain_of_larger_batch(run, batch, larger / std::max(1, rank.facts.world_size)),
                   .confidence = 0.5,
                   .wanted = larger};
}

std::optional<Finding> uneven_steps(const RunView&, const RankRecords& rank, const RunSummary& run) {
    constexpr double kSlow = 3;  // times the median
    constexpr double kWarn = 0.1;
    double lost = 0;
    std::int64_t slow = 0;
    std::int64_t first = 0;  // of them, in their epochs
    std::int64_t epoch = 0;
    for (const StepEntry& step : rank.steps) {
        const bool begins = epoch != 0 && step.epoch != epoch;
        epoch = step.epoch;
        const double seconds =
            seconds_of(step.host.total() - step.host.times[static_cast<std::size_t>(Phase::checkpoint)] -
                       step.host.times[static_cast<std::size_t>(Phase::sync)]);
        if (run.judges(step) && seconds > kSlow * run.median_step) {
            lost += seconds - run.median_step;
            ++slow;
            first += begins ? 1 : 0;
        }
    }
    if (run.seconds <= 0 || lost / run.seconds < kWarn || run.steps < 30) {
        return std::nullopt;
    }
    const bool at_epochs = first >= 2 && 2 * first > slow;
    const DataFacts& data = rank.facts.data;  // of a watched program alone
    const bool anew = at_epochs && data.loader == "DataLoader" && !data.persistent.value_or(true);
    const double share = lost / run.seconds;
    return Finding{.evidence = {{"slow_steps", static_cast<double>(slow)},
                                {"lost_share", share},
                                {"median_step_ms", 1e3 * run.median_step}},
                   .gain = gain_of_share(share, 0),
                   .confidence = 0.5,
                   .variant = anew        ? "anew"
                              : at_epochs ? "epochs"
                                          : ""};
}

}  // namespace

std::span<const Rule> run_rules() {
    static constexpr std::array kRules = {
        Rule{"frequent-evaluation", "evaluations take 25 % of the time (critical: 50 %)", "`train.evaluate_every`",
             frequent_evaluation, Needs::steps, /*of_job=*/true, /*of_whole_run=*/true},
        Rule{"frequent-checkpoints", "two or more checkpoints take 20 % of the time (info from 10 %)",
             "`train.checkpoint_every`", frequent_checkpoints, Needs::steps, /*of_job=*/true, /*of_whole_run=*/true},
        Rule{"small-batch", "at most 16 samples a step, and 12 % of the time does not depend on the batch",
             "a larger `data.batch_size`, with another learning rate", small_batch},
        Rule{"uneven-steps", "steps of three times the median cost 10 % of the time", "find out what else runs then",
             uneven_steps},
    };
    return kRules;
}

}  // namespace stoker
