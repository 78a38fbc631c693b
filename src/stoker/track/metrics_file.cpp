// Unknown line types and keys are skipped: later versions may write more.
#include "stoker/track/metrics_file.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/records/line_file.h"
#include "stoker/records/records_json.h"
#include "stoker/track/step_thinner.h"

namespace stoker {
namespace {

class LineReader {
  public:
    LineReader(Metrics& metrics, MetricLines wanted) : metrics_(metrics), wanted_(wanted) {}

    // Returns why the line is refused; empty for a valid line.
    std::string add(std::string_view line) {
        if (wanted_ == MetricLines::last_step && line.starts_with(kStepLine) && line.ends_with("}}")) {
            last_step_ = line;
            return "";
        }
        return parse(line);
    }

    std::string finish() {
        if (wanted_ == MetricLines::curves) {
            metrics_.steps = thinner_.means();
            metrics_.peaks = thinner_.peaks();
            metrics_.grouped_to = thinner_.last_step();
        }
        return last_step_.empty() ? "" : parse(last_step_);
    }

  private:
    std::string parse(std::string_view line) {
        const RecordLine record = read_record(line, {"step", "epoch"});
        const auto* const step = std::get_if<StepEntry>(&record.entry);
        if (record.type.empty()) {
            return "other text";
        }
        if (!record.problem.empty() || !record.complete) {
            return record.complete ? record.problem : "a line of type " + record.type + " with values missing";
        }
        if (const auto* const epoch = std::get_if<EpochResult>(&record.entry)) {
            add_in_order(metrics_.epochs, *epoch, &EpochResult::epoch);
        } else if (step != nullptr && wanted_ == MetricLines::curves) {
            thinner_.add(step_line(*step));
        } else if (step != nullptr) {
            add_in_order(metrics_.steps, step_line(*step), &StepLine::step);
        }
        return "";
    }

    Metrics& metrics_;
    MetricLines wanted_;
    StepThinner thinner_{kMostCurveSteps};
    std::string last_step_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, std::uint64_t offset, const std::string& got) {
    throw DataError({.path = path.string(), .offset = static_cast<std::int64_t>(offset)},
                    {.where = path.string(), .expected = "a line of metrics.jsonl", .got = got});
}

}  // namespace

StepLine step_line(const StepEntry& entry) {
    const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
    return {.step = entry.step,
            .epoch = entry.epoch,
            .samples = entry.samples.value_or(0),
            .lr = entry.lr.value_or(std::numeric_limits<double>::quiet_NaN()),
            .loss = entry.loss,
            .seconds = seconds(entry.host.total()),
            .wait_seconds = seconds(entry.host.times[static_cast<std::size_t>(Phase::wait)])};
}

std::int64_t Metrics::last_step() const {
    return std::max({grouped_to, steps.empty() ? 0 : steps.back().step, epochs.empty() ? 0 : epochs.back().step});
}

std::int64_t Metrics::last_epoch() const {
    return epochs.empty() ? 0 : epochs.back().epoch;
}

Metrics read_metrics(const std::filesystem::path& path, MetricLines lines) {
    Metrics metrics;
    LineReader reader(metrics, lines);
    std::uint64_t read = 0;
    const std::string rest = for_each_line(path, [&](std::string_view line, std::uint64_t offset) {
        if (const std::string problem = reader.add(line); !problem.empty()) {
            refuse(path, offset, problem);
        }
        read = offset + line.size() + 1;
    });
    if (!rest.empty()) {
        metrics.truncated = !reader.add(rest).empty();
        // A truncated line has the beginning of a metric; anything else is another kind of file.
        if (metrics.truncated && !rest.starts_with(std::string_view(R"({"type":)").substr(0, rest.size()))) {
            refuse(path, read, "other text");
        }
    }
    if (const std::string problem = reader.finish(); !problem.empty()) {
        refuse(path, read, problem);
    }
    return metrics;
}

}  // namespace stoker
