// Plain text with a few box characters and no colour, so that it reads the same in a log file.
#include "engine/commands/report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

#include "cli/terminal/accuracy.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

// "  forward         41.2 %  ━━━━━━━━━━━━"
std::string share_line(std::string_view name, double share) {
    constexpr std::size_t kWidth = 30;
    const auto filled = static_cast<std::size_t>(share * kWidth + 0.5);
    return fmt::format("  {:<14} {:>5.1f} %{}\n", name, 100 * share,
                       filled == 0 ? "" : fmt::format("  {:━<{}}", "", filled));
}

}  // namespace

std::string epoch_header() {
    return "epoch   seconds    images/s   train loss   val loss   val accuracy";
}

std::string epoch_line(const EpochResult& epoch, std::int64_t epochs) {
    const auto number = [](const std::optional<double>& value, const char* format) {
        return !value ? "-" : std::isnan(*value) ? "nan" : fmt::format(fmt::runtime(format), *value);
    };
    const std::optional<double> accuracy = accuracy_of(epoch);
    const auto percent = accuracy ? std::optional(100 * *accuracy) : std::nullopt;
    return fmt::format("{:>5} {:>9.2f} {:>11} {:>12} {:>10} {:>14}", fmt::format("{}/{}", epoch.epoch, epochs),
                       epoch.seconds, with_commas(epoch.images_per_second), number(epoch.train_loss, "{:.4f}"),
                       number(epoch.val_loss, "{:.4f}"), number(percent, "{:.2f} %"));
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
        text += share_line(phase_name(phase), result.account.share(phase));
    }
    const StageTimes& times = result.workers;
    const auto total = times[Stage::read] + times[Stage::decode] + times[Stage::augment] + times[Stage::blocked];
    if (total.count() == 0) {
        return text;
    }
    text += fmt::format("\nwhere {} spent their time, {}\n", pluralize(result.workers_used, "loader thread"),
                        pluralize(times.samples, "sample"));
    for (std::size_t i = 0; i < kStages; ++i) {
        const Stage stage = static_cast<Stage>(i);
        text += share_line(stage_name(stage),
                           static_cast<double>(times[stage].count()) / static_cast<double>(total.count()));
    }
    return text;
}

void show_progress(ProgressBar& bar, const EvaluationProgress& at) {
    bar.update("evaluating", at.samples, at.of, static_cast<double>(at.samples), "images");
}

}  // namespace stoker::cli
