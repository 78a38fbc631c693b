// Lines are looked at one by one only where the recorded length does not fit the file.
#include "stoker/train/run/metrics_position.h"

#include <string_view>

#include "stoker/base/file.h"
#include "stoker/records/records_json.h"

namespace stoker {
namespace {

bool ends_at_step(std::string_view text, const MetricsPosition& at) {
    if (at.bytes == 0) {
        return at.step == 0 || text.empty();
    }
    if (at.bytes < 0 || static_cast<std::size_t>(at.bytes) > text.size()) {
        return false;
    }
    const std::string_view kept = text.substr(0, static_cast<std::size_t>(at.bytes));
    if (!kept.ends_with('\n')) {
        return false;
    }
    const std::string_view lines = kept.substr(0, kept.size() - 1);
    return read_record(lines.substr(lines.rfind('\n') + 1), {}).step == at.step;  // npos + 1 is 0
}

bool belongs(const RecordLine& line, const MetricsPosition& at) {
    const auto* const epoch = std::get_if<EpochResult>(&line.entry);
    return line.problem.empty() && line.step >= 0 && line.step <= at.step &&
           (epoch == nullptr || epoch->epoch <= at.epochs);
}

}  // namespace

std::int64_t metrics_end(const std::filesystem::path& file, const MetricsPosition& at) {
    if (!is_file(file)) {
        return 0;
    }
    const MappedFile mapped(file);
    const std::string_view text = as_text(mapped.bytes());
    if (ends_at_step(text, at)) {
        return at.bytes;
    }
    std::size_t end = 0;
    for (std::size_t next = text.find('\n'); next != std::string_view::npos; next = text.find('\n', end)) {
        if (!belongs(read_record(text.substr(end, next - end), {"epoch"}), at)) {
            break;
        }
        end = next + 1;
    }
    return static_cast<std::int64_t>(end);
}

}  // namespace stoker
