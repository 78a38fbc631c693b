// Lines are text from the start: a JSON object would take several times as long, and steps are written as they come.
#include "stoker/records/record_writer.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "stoker/records/record_fields.h"

namespace stoker {
namespace {

template <typename T>
std::string scalar(const T& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1000;
}

// Appends what is known to an object whose "{" is written.
class FieldWriter {
  public:
    explicit FieldWriter(std::string& out, bool is_short = false) : out_(out), short_(is_short) {}

    template <typename T>
    void operator()(std::string_view key, const std::optional<T>& value) const {
        if (value) {
            (*this)(key, *value);
        }
    }
    void operator()(std::string_view key, const std::string& text) const {
        if (!text.empty()) {
            put(key, scalar(text));
        }
    }
    void operator()(std::string_view key, double value) const {
        put(key, !short_ ? scalar(value) : std::isfinite(value) ? fmt::to_string(value) : "null");
    }
    template <std::integral T>
    void operator()(std::string_view key, const T& value) const {
        put(key, fmt::to_string(value));
    }
    void operator()(std::string_view key, const PhaseTimes& times) const {
        put(key, "{");
        for (std::size_t i = 0; i < kPhases; ++i) {
            const std::string_view name = phase_name(static_cast<Phase>(i));
            if (short_ && times[i].count() / 1000 != 0) {
                (*this)(name, times[i].count() / 1000);
            } else if (!short_ && times[i].count() != 0) {
                (*this)(name, microseconds(times[i]));
            }
        }
        out_ += '}';
    }
    void operator()(std::string_view key, const StageTimes& times) const {
        put(key, "{");
        (*this)("samples", times.samples);
        if (times.on_device != 0) {
            (*this)("on_device", times.on_device);
        }
        if (times.cpu.count() != 0) {  // workers = 0: the training thread loads, and its CPU time is not measured
            (*this)("cpu", microseconds(times.cpu));
        }
        for (std::size_t i = 0; i < kStages; ++i) {
            (*this)(stage_name(static_cast<Stage>(i)), microseconds(times.times[i]));
        }
        out_ += '}';
    }
    void operator()(std::string_view key, const std::vector<MetricEntry>& metrics) const {
        if (metrics.empty()) {
            return;
        }
        put(key, "{");
        for (const MetricEntry& metric : metrics) {
            out_ += (out_.back() == '{' ? "" : ",") + scalar(metric.name) + ":" + scalar(metric.value);
        }
        out_ += '}';
    }
    void operator()(std::string_view key, const std::vector<double>& values) const { put(key, scalar(values)); }
    template <typename Entry>
    void operator()(std::string_view key, const std::vector<Entry>& list) const {
        if (list.empty()) {
            return;
        }
        put(key, "[");
        for (const Entry& entry : list) {
            out_ += out_.back() == '[' ? "{" : ",{";
            fields(entry, *this);
            out_ += '}';
        }
        out_ += ']';
    }
    template <typename Entry>
    void operator()(std::string_view key, const Entry& entry) const {
        put(key, "{");
        fields(entry, *this);
        out_ += '}';
    }
    void count(std::string_view key, const auto& value) const { (*this)(key, value); }
    void figure(std::string_view key, const auto& value) const { (*this)(key, value); }
    void nullable(std::string_view key, const std::optional<double>& value) const {
        put(key, value ? scalar(*value) : "null");
    }
    void hash(std::string_view key, const std::optional<std::uint64_t>& value) const {
        if (value) {
            put(key, fmt::format("\"{:016x}\"", *value));
        }
    }

  private:
    void put(std::string_view key, std::string_view json) const {
        out_ += out_.back() == '{' ? "\"" : ",\"";
        out_.append(key).append("\":").append(json);
    }

    std::string& out_;
    bool short_;
};

std::string begin_line(std::string_view type) {
    return fmt::format(R"({{"type":"{}","schema":{})", type, kRecordsSchema);
}

std::string end_line(std::string line, const auto& entry) {
    fields(entry, FieldWriter(line, std::same_as<decltype(entry), const StepEntry&>));
    return line + "}";
}

}  // namespace

std::string to_json_line(const RunFacts& facts, std::int64_t step) {
    return end_line(begin_line("facts") + fmt::format(R"(,"step":{})", step), facts);
}

std::string to_json_line(const StepEntry& step) {
    return end_line(begin_line("step"), step);
}

std::string to_json_line(const IntervalEntry& interval, int rank) {
    return end_line(begin_line("interval") + fmt::format(R"(,"step":{},"rank":{})", interval.last_step, rank),
                    interval);
}

std::string to_json_line(const EvaluationEntry& evaluation, int rank) {
    return end_line(begin_line("evaluation") + fmt::format(R"(,"rank":{})", rank), evaluation);
}

std::string to_json_line(const EpochEntry& epoch) {
    return end_line(begin_line("epoch") + fmt::format(R"(,"step":{})", epoch.step), epoch);
}

std::string to_json(const EpochEntry& epoch) {
    return end_line("{", epoch);
}

std::string marked_as_profiled(std::string line) {
    return line.insert(line.rfind('}'), R"(,"profiled":true)");
}

}  // namespace stoker
