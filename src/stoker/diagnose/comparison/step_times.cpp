#include "stoker/diagnose/comparison/step_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stoker {
namespace {

constexpr auto at(Phase phase) {
    return static_cast<std::size_t>(phase);
}

RareCost rare_cost(const std::vector<double>& seconds, double every) {
    if (seconds.empty()) {
        return {};
    }
    const auto count = static_cast<double>(seconds.size());
    RareCost cost{.count = std::ssize(seconds), .every = std::max(every, 1.0)};
    cost.seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
    double squares = 0;
    for (const double one : seconds) {
        squares += (one - cost.seconds) * (one - cost.seconds);
    }
    cost.deviation = seconds.size() > 1 ? std::sqrt(squares / (count - 1) / count) : 0;
    return cost;
}

// Checkpoints within steps. They are counted from the first step on, since a checkpoint ends the steps before it.
RareCost checkpoints_of(const RankRecords& rank) {
    std::vector<double> seconds;
    std::int64_t last = 0;
    for (const StepEntry& step : rank.steps) {
        if (const double time = seconds_of(step.host.times[at(Phase::checkpoint)]); time > 0) {
            seconds.push_back(time);
            last = step.step;
        }
    }
    const auto steps = static_cast<double>(rank.steps.empty() ? 0 : last - rank.steps.front().step + 1);
    return rare_cost(seconds, steps / std::max(1.0, static_cast<double>(seconds.size())));
}

RareCost evaluations_of(const RankRecords& rank) {
    std::vector<double> seconds;
    for (const EvaluationEntry& evaluation : rank.evaluations) {
        seconds.push_back(seconds_of(evaluation.host.total()));
    }
    if (seconds.empty() || rank.steps.empty()) {
        return {};
    }
    const std::int64_t steps = rank.evaluations.back().step - rank.steps.front().step + 1;
    return rare_cost(seconds, static_cast<double>(steps) / static_cast<double>(seconds.size()));
}

std::optional<double> checkpoints_between_epochs(const RankRecords& rank) {
    if (!rank.total || rank.steps.empty()) {
        return std::nullopt;
    }
    double within = 0;
    for (const StepEntry& step : rank.steps) {
        within += seconds_of(step.host.times[at(Phase::checkpoint)]);
    }
    const double all = seconds_of(rank.total->times[at(Phase::checkpoint)]);
    return std::max(all - within, 0.0) / static_cast<double>(rank.steps.size());
}

// The mean of the judged steps; the batch size where steps do not say it, or say a rank's part alone.
std::optional<double> samples_of(const RankRecords& rank, const JudgedSteps& judged) {
    double sum = 0;
    double steps = 0;
    bool known = true;
    for (const StepEntry& step : rank.steps) {
        if (judged.judges(step)) {
            known = known && step.samples.value_or(0) > 0;
            sum += static_cast<double>(step.samples.value_or(0));
            ++steps;
        }
    }
    const std::int64_t batch = rank.facts.train.batch_size.value_or(0);
    if (known && steps > 0 && (batch == 0 || rank.facts.world_size <= 1)) {
        return sum / steps;
    }
    return batch > 0 ? std::optional(static_cast<double>(batch)) : std::nullopt;
}

// Reads of losses after the last step of an epoch belong to that step; others that the account knows, to the last.
void add_reads_after_steps(const RankRecords& rank, StepTimes& out, const std::vector<std::int64_t>& numbers) {
    double sum = 0;
    for (const PhaseSeconds& step : out.steps) {
        sum += step[at(Phase::sync)];
    }
    double left = seconds_of(out.judged.account.times[at(Phase::sync)]) - sum;
    for (const IntervalEntry& interval : rank.intervals) {
        const auto found = std::ranges::lower_bound(numbers, interval.last_step);
        if (found != numbers.end() && *found == interval.last_step && interval.after_us) {
            const double seconds = std::clamp(*interval.after_us / 1e6, 0.0, std::max(left, 0.0));
            out.steps[static_cast<std::size_t>(found - numbers.begin())][at(Phase::sync)] += seconds;
            left -= seconds;
        }
    }
    if (!out.steps.empty()) {
        out.steps.back()[at(Phase::sync)] += std::max(left, 0.0);
    }
}

bool is_too_short_for(const StepTimes& times, const RareCost& own, const RareCost& other) {
    constexpr double kPeriods = 1.5;
    return own.count == 0 && other.count > 0 && static_cast<double>(times.last_step) < kPeriods * other.every;
}

void join_passes(StepTimes& times) {
    for (PhaseSeconds& step : times.steps) {
        for (const Phase part : {Phase::forward, Phase::backward, Phase::optimizer}) {
            step[at(Phase::step)] += std::exchange(step[at(part)], 0);
        }
    }
}

}  // namespace

double sum_of(const PhaseSeconds& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

PhaseSeconds StepTimes::mean() const {
    PhaseSeconds sum{};
    for (const PhaseSeconds& step : steps) {
        std::ranges::transform(sum, step, sum.begin(), std::plus());
    }
    const double count = std::max(1.0, static_cast<double>(steps.size()));
    std::ranges::transform(sum, sum.begin(), [&](double seconds) { return seconds / count; });
    return sum;
}

StepTimes step_times(const RankRecords& rank) {
    StepTimes out{.judged = judged_steps(rank)};
    std::vector<std::int64_t> numbers;
    for (const StepEntry& step : rank.steps) {
        if (!out.judged.judges(step)) {
            continue;
        }
        PhaseSeconds& seconds = out.steps.emplace_back();
        std::ranges::transform(step.host.times, seconds.begin(), seconds_of);
        seconds[at(Phase::checkpoint)] = 0;
        numbers.push_back(step.step);
    }
    add_reads_after_steps(rank, out, numbers);
    out.checkpoint = checkpoints_of(rank);
    out.evaluation = evaluations_of(rank);
    out.between_epochs = checkpoints_between_epochs(rank);
    out.samples = samples_of(rank, out.judged);
    out.last_step = rank.steps.empty() ? 0 : rank.steps.back().step;
    return out;
}

std::vector<Phase> drop_what_one_lacks(StepTimes& a, StepTimes& b) {
    std::vector<Phase> dropped;
    if (!a.between_epochs || !b.between_epochs) {
        a.between_epochs = b.between_epochs = std::nullopt;
    }
    for (const auto& [member, phase] :
         {std::pair(&StepTimes::checkpoint, Phase::checkpoint), std::pair(&StepTimes::evaluation, Phase::evaluate)}) {
        if (is_too_short_for(a, a.*member, b.*member) || is_too_short_for(b, b.*member, a.*member)) {
            a.*member = b.*member = {};
            dropped.push_back(phase);
        }
    }
    return dropped;
}

void join_passes_if_one_does(StepTimes& a, StepTimes& b) {
    const auto joined = [](const StepTimes& times) { return times.mean()[at(Phase::step)] > 0; };
    if (joined(a) != joined(b)) {
        join_passes(a);
        join_passes(b);
    }
}

}  // namespace stoker
