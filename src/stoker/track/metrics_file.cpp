// The file is read a piece at a time, and a line may have 64 KiB: whatever file is named, memory goes to what is kept.
// Lines and keys that are not known here are passed over, since a later version may write more of both.
#include "stoker/track/metrics_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLine = std::size_t{1} << 16;
constexpr std::int64_t kSchema = 1;
constexpr std::string_view kStepLine = R"({"type":"step",)";  // as train writes it

// What is wrong with a line, or nothing.
using Trouble = std::optional<std::string>;

class Lines {
  public:
    Lines(Metrics& metrics, MetricLines wanted) : metrics_(metrics), wanted_(wanted) {}

    Trouble add(std::string_view line) {
        if (wanted_ == MetricLines::last_step && line.starts_with(kStepLine) && line.ends_with("}}")) {
            last_step_ = line;
            return std::nullopt;
        }
        return parse(line);
    }

    Trouble finish() { return last_step_.empty() ? std::nullopt : parse(last_step_); }

  private:
    Trouble parse(std::string_view line) {
        const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) {
            return "other text";
        }
        const std::string type = json["type"];
        if (type != "step" && type != "epoch") {
            return std::nullopt;
        }
        if (json.value("schema", Json()) != kSchema) {
            return "schema " + json.value("schema", Json()).dump(-1, ' ', false, Json::error_handler_t::replace);
        }
        const bool good = type == "step" ? step(json) : epoch(json);
        return good ? std::nullopt : Trouble("a line of type " + type + " with values missing");
    }

    bool step(const Json& json) {
        StepLine out;
        const Json us = json.value("us", Json::object());
        bool good = whole(json, "step", out.step) && whole(json, "epoch", out.epoch) &&
                    whole(json, "samples", out.samples) && real(json, "lr", out.lr) && us.is_object();
        for (auto phase = us.begin(); good && phase != us.end(); ++phase) {
            good = phase->is_number();
            out.seconds += good ? 1e-6 * phase->get<double>() : 0;
            out.wait_seconds += good && phase.key() == "wait" ? 1e-6 * phase->get<double>() : 0;
        }
        if (json.contains("loss")) {
            good = real(json, "loss", out.loss.emplace()) && good;
        }
        return good && keep(metrics_.steps, out, &StepLine::step);
    }

    bool epoch(const Json& json) {
        EpochLine out;
        const bool good =
            whole(json, "epoch", out.epoch) && whole(json, "step", out.step) && real(json, "seconds", out.seconds) &&
            real(json, "images_per_second", out.images_per_second) && real(json, "train_loss", out.train_loss) &&
            optional(json, "val_loss", out.val_loss) && optional(json, "val_accuracy", out.val_accuracy);
        whole(json, "bad_samples", out.bad_samples);
        whole(json, "val_bad_samples", out.val_bad_samples);
        return good && keep(metrics_.epochs, out, &EpochLine::epoch);
    }

    template <typename Metric>
    static bool keep(std::vector<Metric>& list, const Metric& metric, std::int64_t Metric::*number) {
        while (!list.empty() && list.back().*number >= metric.*number) {
            list.pop_back();
        }
        list.push_back(metric);
        return true;
    }

    static bool whole(const Json& json, const char* key, std::int64_t& out) {
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

    // JSON has no NaN: it was written as null.
    static bool real(const Json& json, const char* key, double& out) {
        const auto found = json.find(key);
        if (found == json.end() || (!found->is_number() && !found->is_null())) {
            return false;
        }
        out = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
        return true;
    }

    static bool optional(const Json& json, const char* key, std::optional<double>& out) {
        const auto found = json.find(key);
        if (found == json.end() || found->is_null()) {
            return true;
        }
        return real(json, key, out.emplace());
    }

    Metrics& metrics_;
    MetricLines wanted_;
    std::string last_step_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, std::uint64_t offset, const std::string& got) {
    throw DataError({.path = path.string(), .offset = static_cast<std::int64_t>(offset)},
                    {.where = path.string(), .expected = "a line of a run's metrics", .got = got});
}

// Calls `take(line, offset)` for each whole line; gives back what stands behind the last.
std::string for_each_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view, std::uint64_t)>& take) {
    const File file(path);
    const std::uint64_t size = file.info().size;
    std::string held;
    std::uint64_t done = 0;
    while (done < size) {
        constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
        const std::size_t before = held.size();
        held.resize(before + std::min(size - done, kPiece));
        file.read(done, std::as_writable_bytes(std::span(held).subspan(before)));
        const std::uint64_t first = done - before;  // of `held`
        done += held.size() - before;
        std::size_t at = 0;
        for (std::size_t end = held.find('\n'); end != std::string::npos; end = held.find('\n', at)) {
            take(std::string_view(held).substr(at, end - at), first + at);
            at = end + 1;
        }
        held.erase(0, at);
        if (held.size() > kMaxLine) {
            refuse(path, first + at, fmt::format("one of more than {} bytes", kMaxLine));
        }
    }
    return held;
}

}  // namespace

std::int64_t Metrics::last_step() const {
    return std::max(steps.empty() ? 0 : steps.back().step, epochs.empty() ? 0 : epochs.back().step);
}

Metrics read_metrics(const std::filesystem::path& path, MetricLines lines) {
    Metrics metrics;
    Lines reader(metrics, lines);
    std::uint64_t read = 0;
    const std::string rest = for_each_line(path, [&](std::string_view line, std::uint64_t offset) {
        if (const Trouble trouble = reader.add(line)) {
            refuse(path, offset, *trouble);
        }
        read = offset + line.size() + 1;
    });
    if (!rest.empty()) {
        metrics.cut = reader.add(rest).has_value();
        // Half a line begins as a whole one does; a file of one line that does not is some other file.
        if (metrics.cut && !rest.starts_with(std::string_view(R"({"type":)").substr(0, rest.size()))) {
            refuse(path, read, "other text");
        }
    }
    if (const Trouble trouble = reader.finish()) {
        refuse(path, read, *trouble);
    }
    return metrics;
}

}  // namespace stoker
