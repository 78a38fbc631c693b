#include "cli/commands/diagnosis_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stoker/base/pluralize.h"
#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/judged_steps.h"
#include "stoker/diagnose/report/units.h"

namespace stoker::cli {
namespace {

constexpr int kBarWidth = 40;

std::string bar(double share) {
    const int width = static_cast<int>(std::lround(share * kBarWidth));
    return width == 0 ? "" : fmt::format("  {:█<{}}", "", width);
}

// The steps that are judged.
std::string account_text(const RankRecords& rank) {
    const JudgedSteps judged = judged_steps(rank);
    const StepRecord& sum = judged.account;
    const double us = std::chrono::duration<double, std::micro>(sum.total()).count();
    const bool parts = judged.last_step - judged.first_step >= judged.steps;  // each part has its own warm-up
    const std::string which = judged.steps == std::ssize(rank.steps) ? ""
                              : parts ? fmt::format("; {} steps in all are judged", judged.steps)
                                      : fmt::format("; those before step {} are not judged", judged.first_step);
    std::string text = fmt::format("where the training thread{} spent {}: {} of {}{}\n",
                                   rank.facts.world_size > 1 ? fmt::format(" of rank {}", rank.facts.rank) : "",
                                   duration_text(us), pluralize(judged.steps, "step"),
                                   duration_text(us / std::max(1.0, static_cast<double>(judged.steps))), which);
    for (std::size_t i = 0; i < kPhases; ++i) {
        const double share = sum.share(static_cast<Phase>(i));
        if (sum.times[i].count() > 0) {
            text += fmt::format("  {:<13} {:>5.1f} %{}\n", phase_name(static_cast<Phase>(i)), 100 * share, bar(share));
        }
    }
    if (!rank.evaluations.empty()) {
        std::chrono::nanoseconds evaluations{};
        for (const EvaluationEntry& evaluation : rank.evaluations) {
            evaluations += evaluation.host.total();
        }
        text += fmt::format("and {} in {} besides\n",
                            duration_text(std::chrono::duration<double, std::micro>(evaluations).count()),
                            pluralize(std::ssize(rank.evaluations), "evaluation"));
    }
    return text;
}

std::string name_of_gpu(const RankRecords& rank) {
    return rank.facts.device.name.empty() ? "GPU" : fmt::format("GPU ({})", rank.facts.device.name);
}

// Whether a watched program keeps its GPU busy, seen at the ends of steps.
std::string looks_text(const RankRecords& rank) {
    int looks = 0;
    int done = 0;
    double latest_us = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        looks += interval.gpu_done_us || interval.gpu_busy_us ? 1 : 0;
        done += interval.gpu_done_us ? 1 : 0;
        latest_us = std::max(latest_us, interval.gpu_done_us.value_or(0));
    }
    if (looks == 0) {
        return {};
    }
    return fmt::format("{}: of {} that were looked at, it had no work left after {}{}\n", name_of_gpu(rank),
                       pluralize(looks, "step"), done, done > 0 ? ", within " + duration_text(latest_us) : "");
}

std::string gpu_text(const RankRecords& rank) {
    if (!rank.profile || !rank.profile->gpu || rank.profile->gpu->times.span_us() <= 0) {
        return looks_text(rank);
    }
    const GpuTimes& gpu = rank.profile->gpu->times;
    double host = 0;
    double kernel = 0;
    double other = 0;
    for (const GpuTimes::Idle& idle : gpu.idle) {
        host += idle.host_wait_us;
        kernel += idle.kernel_wait_us;
        other += idle.other_us;
    }
    const double causes = std::max(host + kernel + other, 1.0);
    return fmt::format(
        "{}: busy {:.0f} % of {}: computes {:.0f} %, copies and communicates alone {:.0f} %, idle {:.0f} % (its "
        "streams waited for the host {:.0f} %, between kernels {:.0f} %, for other causes {:.0f} %)\n",
        name_of_gpu(rank), 100 * gpu.busy(), duration_text(gpu.span_us()), 100 * gpu.compute_us / gpu.span_us(),
        100 * gpu.non_compute_us / gpu.span_us(), 100 * gpu.idle_us / gpu.span_us(), 100 * host / causes,
        100 * kernel / causes, 100 * other / causes);
}

// The work of the loader's workers, over all of the rank's intervals.
std::string workers_text(const RankRecords& rank) {
    StageTimes sum;
    for (const IntervalEntry& interval : rank.intervals) {
        sum += interval.workers.value_or(StageTimes{});
    }
    const auto all = std::accumulate(sum.times.begin(), sum.times.end(), std::chrono::nanoseconds{});
    if (all.count() == 0) {
        return {};
    }
    const int workers = rank.facts.data.workers.value_or(0);
    const std::string on_device =
        sum.on_device == 0 ? ""
                           : fmt::format(", of which the GPU decoded {:.1f} %",
                                         100 * static_cast<double>(sum.on_device) / static_cast<double>(sum.samples));
    std::string text =
        fmt::format("where {} spent {}, for {}{}\n", workers > 0 ? pluralize(workers, "loader worker") : "the loader",
                    duration_text(std::chrono::duration<double, std::micro>(all).count()),
                    pluralize(sum.samples, "sample"), on_device);
    for (std::size_t i = 0; i < kStages; ++i) {
        const double share = static_cast<double>(sum.times[i].count()) / static_cast<double>(all.count());
        if (sum.times[i].count() > 0) {
            text += fmt::format("  {:<13} {:>5.1f} %{}\n", stage_name(static_cast<Stage>(i)), 100 * share, bar(share));
        }
    }
    return text;
}

// The places at which the training thread of a watched program waited for the device.
std::string syncs_text(const RankRecords& rank) {
    if (rank.facts.writer != kPythonWriter) {
        return {};
    }
    const double steps = steps_of_syncs(rank);
    constexpr std::size_t kMost = 5;
    std::string text;
    for (const SyncEntry& sync : costly_syncs(rank, kMost)) {
        text += fmt::format("  {:>8.3f} ms in a step, {:>6.2f} times  {}\n", sync.us / 1e3 / steps,
                            static_cast<double>(sync.count) / steps, sync.place);
    }
    return text.empty() ? text : "where it waited for the device\n" + text;
}

// The times of some of a rank's calls in a step, a line each.
template <typename Entry, typename Describe>
std::string calls_text(const char* title, const std::vector<Entry>& calls, std::int64_t profiled, Describe describe) {
    if (calls.empty()) {
        return {};
    }
    const double steps = std::max(1.0, static_cast<double>(profiled));
    std::string text = fmt::format("{} with the most time of their own, over {}\n", title, pluralize(profiled, "step"));
    for (const Entry& call : calls) {
        text += fmt::format("  {:>8.3f} ms in a step, {:>8.1f} calls  {}\n", call.self_us / 1e3 / steps,
                            static_cast<double>(call.count) / steps, describe(call));
    }
    return text;
}

// Profilers' records of a watched program. For a trace only the account and the findings are shown.
std::string profile_text(const RankRecords& rank) {
    constexpr std::size_t kMost = 10;
    std::string text;
    if (rank.functions) {
        text += calls_text("Python functions", costly_functions(rank, kMost), rank.functions->steps,
                           [](const FunctionEntry& function) {
                               return function.place.empty() ? function.name
                                                             : fmt::format("{} {}", function.place, function.name);
                           });
    }
    if (rank.functions && rank.profile) {
        const double steps = std::max(1.0, static_cast<double>(rank.profile->steps));
        text += calls_text(
            "operators", costly_operators(rank, kMost), rank.profile->steps, [&](const OperatorEntry& entry) {
                return entry.device_us > 0 ? fmt::format("{}, GPU {:.3f} ms", entry.name, entry.device_us / 1e3 / steps)
                                           : entry.name;
            });
    }
    return text;
}

std::string number(double value) {
    return value == std::floor(value) && std::abs(value) < 1e15 ? with_commas(value) : fmt::format("{:.3g}", value);
}

// Further lines of code begin below the first.
std::string replaced_breaks(std::string_view code) {
    std::string text;
    for (const char letter : code) {
        text += letter;
        text += letter == '\n' ? "             " : "";
    }
    return text;
}

// `recipe_first`: keys of a recipe, and code only if there is none; else code alone.
std::string fix_text(const Fix& fix, bool recipe_first) {
    std::string text;
    for (std::size_t i = 0; recipe_first && i < fix.recipe.size(); ++i) {
        const RecipeChange& change = fix.recipe[i];
        text += fmt::format("   recipe    {} = {}\n", change.key, change.value);
    }
    const bool is_command = fix.code.starts_with("stoker ");
    if (!fix.code.empty() && (!recipe_first || is_command || fix.recipe.empty())) {
        const std::string code = replaced_breaks(fix.code);
        text += fmt::format("   {:<9} {}\n", is_command ? "command" : "fix", code);
    }
    return text;
}

std::string finding_text(const Finding& finding, std::size_t index, bool ranks, bool recipe_first) {
    std::string text = fmt::format("\n{}. {} ({}{}", index, finding.rule, severity_name(finding.severity),
                                   ranks ? ", " + ranks_text(finding) : "");
    text += fmt::format(", {})\n", steps_text(finding));
    if (index > 1 || finding.severity == Severity::info) {  // else it is the verdict, which stands above
        text += "   " + finding.text + "\n";
    }
    std::vector<std::string> facts;
    for (const Evidence& fact : finding.evidence) {
        facts.push_back(fact.name + " " + number(fact.value));
    }
    if (!facts.empty()) {
        text += fmt::format("   evidence  {}\n", fmt::join(facts, ", "));
    }
    text += fix_text(finding.fix, recipe_first);
    if (finding.gain.high > 1) {
        text += fmt::format("   gain      {:.2f}x, between {:.2f}x and {:.2f}x (confidence {:.0f} %)\n",
                            finding.gain.expected, finding.gain.low, finding.gain.high, 100 * finding.confidence);
    }
    return text;
}

// Both ranks of two; of more the first, and the one that the first finding is about.
std::vector<const RankRecords*> shown_ranks(const RunRecords& records, const Diagnosis& diagnosis) {
    constexpr std::size_t kAll = 2;
    std::vector<const RankRecords*> shown;
    for (const RankRecords& rank : records.ranks) {
        const bool is_worst = !diagnosis.findings.empty() && rank.facts.rank == diagnosis.findings.front().rank;
        if (records.ranks.size() <= kAll || shown.empty() || is_worst) {
            shown.push_back(&rank);
        }
    }
    return shown;
}

}  // namespace

std::string diagnosis_text(const RunRecords& records, const Diagnosis& diagnosis) {
    std::string text = diagnosis.verdict.text + "\n";
    const std::vector<const RankRecords*> shown = shown_ranks(records, diagnosis);
    for (const RankRecords* rank : shown) {
        const std::string account = rank->steps.empty() ? "" : account_text(*rank);
        const std::string section =
            account + workers_text(*rank) + syncs_text(*rank) + gpu_text(*rank) + profile_text(*rank);
        text += section.empty() ? "" : "\n" + section;
    }
    if (shown.size() < records.ranks.size()) {
        text += fmt::format("\nThe accounts of {} are in --json and --html.\n",
                            pluralize(std::ssize(records.ranks) - std::ssize(shown), "other rank"));
    }
    for (std::size_t i = 0; i < diagnosis.findings.size(); ++i) {
        text += finding_text(diagnosis.findings[i], i + 1, records.ranks.size() > 1, diagnosis.recipe_first());
    }
    return text;
}

}  // namespace stoker::cli
