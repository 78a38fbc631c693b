// Lines are looked at one by one only where the recorded length does not fit the file.
#include "stoker/train/run/metrics_cut.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker {
namespace {

// The number `key` of a line; -1 where it has none.
std::int64_t number_in(const nlohmann::json& line, const char* key) {
    const auto found = line.is_object() ? line.find(key) : line.end();
    return found != line.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

nlohmann::json parse(std::string_view line) {
    return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

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
    const std::size_t before = lines.rfind('\n');
    return number_in(parse(lines.substr(before == std::string_view::npos ? 0 : before + 1)), "step") == at.step;
}

bool belongs(const nlohmann::json& line, const MetricsPosition& at) {
    const std::int64_t step = number_in(line, "step");
    const bool epoch_line = line.is_object() && line.value("type", nlohmann::json()) == "epoch";
    return step >= 0 && step <= at.step && (!epoch_line || number_in(line, "epoch") <= at.epochs);
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
        if (!belongs(parse(text.substr(end, next - end)), at)) {
            break;
        }
        end = next + 1;
    }
    return static_cast<std::int64_t>(end);
}

}  // namespace stoker
