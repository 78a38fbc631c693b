// Names that end in numbers without leading zeros would be in the wrong order bytewise.
#include "stoker/formats/folder/clip_files.h"

#include <algorithm>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

std::string_view folder_of(std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return slash == std::string_view::npos ? "" : name.substr(0, slash);
}

// "frame_2.jpg" is before "frame_10.jpg": runs of digits are compared as numbers.
bool before_by_numbers(std::string_view one, std::string_view other) {
    const auto digits = [](std::string_view text) {
        return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
    };
    const std::pair all(one, other);
    while (!one.empty() && !other.empty()) {
        std::string_view left = digits(one);
        std::string_view right = digits(other);
        const std::size_t steps[] = {std::max<std::size_t>(left.size(), 1), std::max<std::size_t>(right.size(), 1)};
        if (left.empty() || right.empty()) {
            left = one.substr(0, 1);
            right = other.substr(0, 1);
        } else {
            left.remove_prefix(std::min(left.find_first_not_of('0'), left.size()));
            right.remove_prefix(std::min(right.find_first_not_of('0'), right.size()));
            if (left.size() != right.size()) {
                return left.size() < right.size();
            }
        }
        if (left != right) {
            return left < right;
        }
        one.remove_prefix(steps[0]);
        other.remove_prefix(steps[1]);
    }
    return one.empty() != other.empty() ? one.empty() : all.first < all.second;
}

}  // namespace

bool is_clip_file(std::string_view name, bool volumes) {
    return is_npy_name(name) || is_video_name(name) || (volumes && is_tiff_name(name));
}

ClipFiles::ClipFiles(std::int64_t files, Name name, const std::function<bool(std::int64_t file)>& alone)
    : name_(std::move(name)) {
    for (std::int64_t file = 0; file < files; ++file) {
        const bool own = alone(file);
        if (own || alone_.empty() || alone_.back() || folder_of(name_(file)) != folder_of(name_(files_.back()))) {
            begins_.push_back(begins_.back());
            alone_.push_back(own);
        }
        files_.push_back(file);
        ++begins_.back();
    }
    for (std::size_t clip = 0; clip < alone_.size(); ++clip) {
        std::sort(files_.begin() + begins_[clip], files_.begin() + begins_[clip + 1],
                  [&](std::int64_t one, std::int64_t other) { return before_by_numbers(name_(one), name_(other)); });
    }
}

std::span<const std::int64_t> ClipFiles::files(std::int64_t clip) const {
    const auto at = static_cast<std::size_t>(clip);
    return std::span(files_).subspan(static_cast<std::size_t>(begins_[at]),
                                     static_cast<std::size_t>(begins_[at + 1] - begins_[at]));
}

std::string ClipFiles::key(std::int64_t clip) const {
    const std::string_view first = name_(files(clip).front());
    return std::string(alone_[static_cast<std::size_t>(clip)] ? first : folder_of(first));
}

void ClipFiles::read(std::int64_t clip, Sample& sample,
                     const std::function<void(std::int64_t file, FieldValue& value)>& read) const {
    const std::span<const std::int64_t> own = files(clip);
    if (alone_[static_cast<std::size_t>(clip)]) {
        read(own.front(), sample);
        return;
    }
    for (const std::int64_t frame : sample.begin_clip(std::ssize(own))) {
        read(own[static_cast<std::size_t>(frame)], sample.frames.emplace_back());
    }
}

}  // namespace stoker
