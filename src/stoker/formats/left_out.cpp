#include "stoker/formats/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "stoker/base/ascii.h"
#include "stoker/base/pluralize.h"

namespace stoker {

void LeftOut::add(Files& files, const std::string& path) {
    if (++files.count == 1) {
        files.example = path;
    }
}

void LeftOut::add_unsupported_image(const std::string& path) {
    add(unsupported_[lower_case(path.substr(path.rfind('.')))], path);
}

std::int64_t LeftOut::unsupported_images() const {
    std::int64_t sum = 0;
    for (const auto& [extension, files] : unsupported_) {
        sum += files.count;
    }
    return sum;
}

std::string LeftOut::Files::text() const {
    return fmt::format("({}{})", example, count > 1 ? ", ..." : "");
}

std::string LeftOut::text() const {
    std::vector<std::string> reasons;
    if (loose_.count > 0) {
        reasons.push_back(
            fmt::format("{} beside the class folders {}", pluralize(loose_.count, "loose image"), loose_.text()));
    }
    if (other_.count > 0) {
        reasons.push_back(fmt::format("{} of other types {}", pluralize(other_.count, "file"), other_.text()));
    }
    std::vector<std::string> kinds;
    for (const auto& [extension, files] : unsupported_) {
        kinds.push_back(fmt::format("{} {}", pluralize(files.count, extension + " file"), files.text()));
    }
    if (!kinds.empty()) {
        reasons.push_back(fmt::format("{}: convert to .png or .jpg", fmt::join(kinds, ", ")));
    }
    return reasons.empty() ? "" : fmt::format("left out: {}", fmt::join(reasons, "; "));
}

}  // namespace stoker
