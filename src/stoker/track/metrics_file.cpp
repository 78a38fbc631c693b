// Unknown line types and keys are skipped: later versions may write more.
#include "stoker/track/metrics_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/track/line_file.h"
#include "stoker/track/step_thinner.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSchema = 1;
constexpr std::string_view kStepLine = R"({"type":"step",)";  // as train writes it

// Why a line is refused; empty for a valid line.
using LineError = std::optional<std::string>;

class LineReader {
  public:
    LineReader(Metrics& metrics, MetricLines wanted) : metrics_(metrics), wanted_(wanted) {}

    LineError add(std::string_view line) {
        if (wanted_ == MetricLines::last_step && line.starts_with(kStepLine) && line.ends_with("}}")) {
            last_step_ = line;
            return std::nullopt;
        }
        return parse(line);
    }

    LineError finish() {
        if (wanted_ == MetricLines::curves) {
            metrics_.steps = thinner_.means();
            metrics_.peaks = thinner_.peaks();
            metrics_.grouped_to = thinner_.last_step();
        }
        return last_step_.empty() ? std::nullopt : parse(last_step_);
    }

  private:
    LineError parse(std::string_view line) {
        const Json json = parse_json<Json>(line);
        if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) {
            return "other text";
        }
        const std::string type = json["type"];
        if (type != "step" && type != "epoch") {
            return std::nullopt;
        }
        if (json.value("schema", Json()) != kSchema) {
            const std::string schema = json.value("schema", Json()).dump(-1, ' ', true, Json::error_handler_t::replace);
            return "schema " + schema.substr(0, 80);
        }
        const bool good = type == "step" ? add_step(json) : add_epoch(json);
        return good ? std::nullopt : LineError("a line of type " + type + " with values missing");
    }

    bool add_step(const Json& json) {
        StepLine out;
        const Json us = json.value("us", Json::object());
        bool good = read_integer(json, "step", out.step) && read_integer(json, "epoch", out.epoch) && us.is_object();
        // A watched program has no learning rate, and not always a number of samples.
        good = good && (!json.contains("samples") || read_integer(json, "samples", out.samples));
        out.lr = std::numeric_limits<double>::quiet_NaN();
        good = good && (!json.contains("lr") || read_number(json, "lr", out.lr));
        for (auto phase = us.begin(); good && phase != us.end(); ++phase) {
            good = phase->is_number();
            out.seconds += good ? 1e-6 * phase->get<double>() : 0;
            out.wait_seconds += good && phase.key() == "wait" ? 1e-6 * phase->get<double>() : 0;
        }
        if (json.contains("loss")) {
            good = read_number(json, "loss", out.loss.emplace()) && good;
        }
        if (good && wanted_ == MetricLines::curves) {
            thinner_.add(out);
            return true;
        }
        return good && keep(metrics_.steps, out, &StepLine::step);
    }

    bool add_epoch(const Json& json) {
        EpochLine out;
        const bool good = read_integer(json, "epoch", out.epoch) && read_integer(json, "step", out.step) &&
                          read_number(json, "seconds", out.seconds) &&
                          read_number(json, "images_per_second", out.images_per_second) &&
                          read_number(json, "train_loss", out.train_loss) &&
                          read_optional(json, "val_loss", out.val_loss) &&
                          read_optional(json, "val_accuracy", out.val_accuracy);
        read_integer(json, "bad_samples", out.bad_samples);
        read_integer(json, "val_bad_samples", out.val_bad_samples);
        read_metrics_of_task(json, out);
        return good && keep(metrics_.epochs, out, &EpochLine::epoch);
    }

    // Entries that are no numbers are skipped.
    static void read_metrics_of_task(const Json& json, EpochLine& out) {
        const auto found = json.find("val_metrics");
        if (found == json.end() || !found->is_object()) {
            return;
        }
        for (const auto& [name, value] : found->items()) {
            if (MetricValue metric{.tag = kMetricTag + name}; read_number(*found, name.c_str(), metric.value)) {
                out.val_metrics.push_back(std::move(metric));
            }
        }
        const auto main = json.find("val_metric");
        if (main != json.end() && main->is_string()) {
            out.val_metric = main->get<std::string>();
            const auto higher = json.find("higher_is_better");
            out.higher_is_better = higher == json.end() || *higher != Json(false);
        }
    }

    template <typename Metric>
    static bool keep(std::vector<Metric>& list, const Metric& metric, std::int64_t Metric::*number) {
        while (!list.empty() && list.back().*number >= metric.*number) {
            list.pop_back();
        }
        list.push_back(metric);
        return true;
    }

    static bool read_integer(const Json& json, const char* key, std::int64_t& out) {
        const auto found = json.find(key);
        if (found == json.end() || !found->is_number_integer()) {
            return false;
        }
        constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        if (found->is_number_unsigned() ? found->get<std::uint64_t>() > kMost : found->get<std::int64_t>() < 0) {
            return false;
        }
        out = found->get<std::int64_t>();
        return true;
    }

    // JSON has no NaN; it is written as null.
    static bool read_number(const Json& json, const char* key, double& out) {
        const auto found = json.find(key);
        if (found == json.end() || (!found->is_number() && !found->is_null())) {
            return false;
        }
        out = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
        return true;
    }

    static bool read_optional(const Json& json, const char* key, std::optional<double>& out) {
        const auto found = json.find(key);
        if (found == json.end() || found->is_null()) {
            return true;
        }
        return read_number(json, key, out.emplace());
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
        if (const LineError error = reader.add(line)) {
            refuse(path, offset, *error);
        }
        read = offset + line.size() + 1;
    });
    if (!rest.empty()) {
        metrics.cut = reader.add(rest).has_value();
        // A truncated line has the beginning of a metric; anything else is another kind of file.
        if (metrics.cut && !rest.starts_with(std::string_view(R"({"type":)").substr(0, rest.size()))) {
            refuse(path, read, "other text");
        }
    }
    if (const LineError error = reader.finish()) {
        refuse(path, read, *error);
    }
    return metrics;
}

}  // namespace stoker
