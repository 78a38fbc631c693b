#include "stoker/track/metrics_file.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/records/line_file.h"
#include "stoker/records/record_reader.h"
#include "stoker/track/step_thinner.h"

namespace stoker {
namespace {

class MetricsReader {
  public:
    MetricsReader(Metrics& metrics, MetricLines wanted) : metrics_(metrics), wanted_(wanted) {}

    // Returns why the line is refused; empty for a valid line.
    std::string add(std::string_view line) {
        if (wanted_ == MetricLines::last_step && seems_of_type(line, "step")) {
            last_step_ = line;
            return "";
        }
        return read(line);
    }

    // The rest of the file, which may be the beginning of a line.
    std::string add_rest(std::string_view rest) {
        std::string problem = last_step_.empty() ? "" : read(last_step_);
        if (problem.empty() && !rest.empty()) {
            metrics_.cut = !read(rest).empty();
            problem = metrics_.cut && !rest.starts_with('{') ? "other text" : "";
        }
        if (wanted_ == MetricLines::curves) {
            metrics_.steps = thinner_.means();
            metrics_.peaks = thinner_.peaks();
            metrics_.grouped_to = thinner_.last_step();
        }
        return problem;
    }

  private:
    std::string read(std::string_view line) {
        const RecordLine record = reader_.read(line);
        if (!record.problem.empty()) {
            return record.type.empty() ? "other text" : record.problem;
        }
        if (!record.complete) {
            return "a line of type " + record.type + " with values missing";
        }
        if (const auto* const epoch = std::get_if<EpochEntry>(&record.entry)) {
            add_in_order(metrics_.epochs, *epoch, &EpochEntry::epoch);
        } else if (const auto* const step = std::get_if<StepEntry>(&record.entry)) {
            add_step(step_line(*step));
        }
        return "";
    }

    void add_step(const StepLine& step) {
        if (wanted_ == MetricLines::curves) {
            thinner_.add(step);
            return;
        }
        if (wanted_ == MetricLines::last_step) {
            metrics_.steps.clear();
        }
        add_in_order(metrics_.steps, step, &StepLine::step);
    }

    Metrics& metrics_;
    MetricLines wanted_;
    RecordReader reader_{"step", "epoch"};
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
    MetricsReader reader(metrics, lines);
    std::uint64_t read = 0;
    const std::string rest = for_each_line(path, [&](std::string_view line, std::uint64_t offset) {
        if (const std::string problem = reader.add(line); !problem.empty()) {
            refuse(path, offset, problem);
        }
        read = offset + line.size() + 1;
    });
    if (const std::string problem = reader.add_rest(rest); !problem.empty()) {
        refuse(path, read, problem);
    }
    return metrics;
}

}  // namespace stoker
