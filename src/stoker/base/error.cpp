// Puts the parts of an error together into its one line. Control characters that come from
// outside (file names, header bytes) are escaped, so that one error always stays one line.
#include "stoker/base/error.h"

#include <cerrno>
#include <fmt/format.h>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

std::string one_line(const std::string& text) {
    std::string line;
    line.reserve(text.size());
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            line += c;
        }
    }
    return line;
}

std::string message(const std::string& where, const ErrorInfo& info) {
    std::string line = fmt::format("[{}] expected {}, got {}", where, info.expected, info.got);
    if (!info.hint.empty()) {
        line += "; " + info.hint;
    }
    return one_line(line);
}

std::string describe(const DataPlace& place, const std::string& where) {
    std::string text = place.path.empty() ? where : place.path;
    if (!place.key.empty()) {
        text += (text.empty() ? "" : ": ") + place.key;
    }
    if (place.index) {
        text += fmt::format(" (sample {})", *place.index);
    }
    if (place.offset) {
        text += fmt::format(" @ byte {}", *place.offset);
    }
    return text;
}

}  // namespace

Error::Error(const ErrorInfo& info) : std::runtime_error(message(info.where, info)) {}

Error::Error(const std::string& line) : std::runtime_error(one_line(line)) {}

DataError::DataError(DataPlace place, const ErrorInfo& info)
    : Error(message(describe(place, info.where), info)), place_(std::move(place)), info_(info) {}

DataError DataError::located(const DataPlace& outer) const {
    DataPlace place = place_;
    if (place.path.empty()) {
        place.path = outer.path;
    }
    if (place.key.empty()) {
        place.key = outer.key;
    }
    if (!place.offset) {
        place.offset = outer.offset;
    }
    if (!place.index) {
        place.index = outer.index;
    }
    return DataError(std::move(place), info_);
}

std::string errno_text() {
    return std::generic_category().message(errno);
}

}  // namespace stoker
