// Plain text with a few box characters and no colour, so that it reads the same in a log file.
#include "engine/commands/report.h"

#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <string_view>

#include "cli/terminal/accuracy.h"
#include "cli/terminal/print.h"
#include "stoker/base/pluralize.h"
#include "stoker/track/main_metric.h"

namespace stoker::cli {
namespace {

// "  forward         41.2 %     12.40 s  ━━━━━━━━━━━━", with a bar that fits the terminal.
std::string share_line(std::string_view name, double share, std::chrono::nanoseconds time) {
    constexpr int kLongestBar = 30;
    constexpr int kShortestBar = 8;
    constexpr int kText = 38;
    const int room = terminal_columns(STDOUT_FILENO).value_or(80) - kText;
    const int width = room < kShortestBar ? 0 : std::min(room, kLongestBar);
    const auto filled = static_cast<int>(share * width + 0.5);
    return fmt::format("  {:<14} {:>5.1f} % {:>9.2f} s{}\n", name, 100 * share,
                       std::chrono::duration<double>(time).count(),
                       filled == 0 ? "" : fmt::format("  {:━<{}}", "", filled));
}

std::string value_text(const Metric& metric) {
    return is_share(metric.name) ? fmt::format("{:.2f} %", 100 * metric.value) : number_text(metric.value);
}

std::string worker_report(const TrainResult& result) {
    const StageTimes& times = result.workers;
    const auto total = std::accumulate(times.times.begin(), times.times.end(), std::chrono::nanoseconds{});
    if (total.count() == 0) {
        return "";
    }
    std::string text =
        fmt::format("\nwhere {} spent {:.2f} s, for {}{}\n", pluralize(result.workers_used, "loader worker"),
                    std::chrono::duration<double>(total).count(), pluralize(times.samples, "sample"),
                    result.resumed_from_step ? " since the run was resumed" : "");
    for (std::size_t i = 0; i < kStages; ++i) {
        const Stage stage = static_cast<Stage>(i);
        if (times[stage].count() > 0) {
            text += share_line(stage_name(stage),
                               static_cast<double>(times[stage].count()) / static_cast<double>(total.count()),
                               times[stage]);
        }
    }
    if (times[Stage::entropy].count() > 0) {
        text += "  entropy: Huffman decoding of JPEGs; pixels: the rest of decoding\n";
    }
    return text + "  blocked: enough batches are ready, waiting until training takes one\n";
}

}  // namespace

std::string metric_text(const Metric& metric) {
    return metric.name + " " + value_text(metric);
}

std::string epoch_header(const Task& task) {
    const std::vector<Metric> metrics = metrics_of(task);
    return fmt::format("epoch   seconds    images/s   train loss   val loss {:>14}",
                       metrics.empty() ? "" : "val " + metrics.front().name);
}

std::string epoch_line(const EpochResult& epoch, std::int64_t epochs, const Task& task) {
    std::string last = "-";
    if (const std::optional<double> accuracy = accuracy_of(epoch)) {
        last = fmt::format("{:.2f} %", 100 * *accuracy);
    } else if (!task.classifies() && !epoch.val_metrics.empty()) {
        last = value_text(epoch.val_metrics.front());
    }
    return fmt::format("{:>5} {:>9.2f} {:>11} {:>12} {:>10} {:>14}", fmt::format("{}/{}", epoch.epoch, epochs),
                       epoch.seconds, with_commas(epoch.images_per_second), number_text(epoch.train_loss),
                       epoch.val_loss ? number_text(*epoch.val_loss) : "-", last);
}

std::string bubble_line(const Bubble& bubble) {
    std::vector<std::string> shares;
    for (const double share : bubble.stages) {
        shares.push_back(fmt::format("{:.1f}", 100 * share));
    }
    return fmt::format("the stages waited {} % of their steps; the schedule has {:.1f} %", fmt::join(shares, ", "),
                       100 * bubble.formula);
}

std::string account_report(const TrainResult& result) {
    std::vector<Phase> phases;
    for (std::size_t i = 0; i < kPhases; ++i) {
        const Phase phase = static_cast<Phase>(i);
        if (phase == Phase::unmeasured || result.account.share(phase) > 0) {
            phases.push_back(phase);
        }
    }
    std::stable_sort(phases.begin(), phases.end(),
                     [&](Phase a, Phase b) { return result.account.share(a) > result.account.share(b); });
    std::string text = fmt::format("\nwhere the training thread spent {:.2f} s\n",
                                   std::chrono::duration<double>(result.account.total()).count());
    for (const Phase phase : phases) {
        text += share_line(phase_name(phase), result.account.share(phase),
                           result.account.times[static_cast<std::size_t>(phase)]);
    }
    return text + worker_report(result);
}

void show_progress(ProgressBar& bar, const EvaluationProgress& at) {
    bar.update({.label = "evaluating",
                .done = at.samples,
                .total = at.of,
                .amount = static_cast<double>(at.samples),
                .unit = "images"});
}

}  // namespace stoker::cli
