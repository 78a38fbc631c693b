#include "stoker/train/run/metrics_position.h"

#include <algorithm>
#include <optional>

#include "stoker/records/records_json.h"

namespace stoker {
namespace {

// The length as the checkpoint records it, if a line of its step ends there.
std::optional<std::size_t> recorded_end(std::string_view text, const MetricsPosition& at) {
    if (at.bytes == 0) {
        return at.step == 0 || text.empty() ? std::optional<std::size_t>(0) : std::nullopt;
    }
    if (at.bytes < 0 || static_cast<std::size_t>(at.bytes) > text.size()) {
        return std::nullopt;
    }
    const std::string_view kept = text.substr(0, static_cast<std::size_t>(at.bytes));
    if (!kept.ends_with('\n')) {
        return std::nullopt;
    }
    const std::string_view lines = kept.substr(0, kept.size() - 1);
    const bool fits = read_record(lines.substr(lines.rfind('\n') + 1), {}).step == at.step;  // npos + 1 is 0
    return fits ? std::optional(kept.size()) : std::nullopt;
}

bool belongs(const RecordLine& line, const MetricsPosition& at) {
    const auto* const epoch = std::get_if<EpochResult>(&line.entry);
    return line.step >= 0 && line.step <= at.step && (epoch == nullptr || epoch->epoch <= at.epochs);
}

}  // namespace

KeptMetrics kept_metrics(std::string_view text, const MetricsPosition& at) {
    const std::optional<std::size_t> recorded = recorded_end(text, at);
    const std::size_t end = recorded.value_or(text.size());
    KeptMetrics kept;
    bool joins = false;  // the line follows the last part
    for (std::size_t begin = 0; begin < end;) {
        const std::size_t line_end = text.find('\n', begin);
        if (line_end == std::string_view::npos || line_end >= end) {
            break;  // cut short
        }
        const std::string_view line = text.substr(begin, line_end + 1 - begin);
        const RecordLine record = read_record(line.substr(0, line.size() - 1), {"epoch"});
        begin = line_end + 1;
        if (!record.problem.empty()) {
            ++kept.damaged;
            joins = false;
            continue;
        }
        if (!recorded && !belongs(record, at)) {
            break;
        }
        if (joins) {
            kept.parts.back() = {kept.parts.back().data(), kept.parts.back().size() + line.size()};
        } else {
            kept.parts.push_back(line);
        }
        joins = true;
        kept.bytes += std::ssize(line);
        kept.last_step = std::max(kept.last_step, record.step);
    }
    return kept;
}

}  // namespace stoker
