// Names that end in numbers without leading zeros would be in the wrong order bytewise.
#include "stoker/formats/folder/clip_files.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

std::string_view folder_of(std::string_view name) {
    return name.substr(0, name.rfind('/'));
}

// A file that is a whole clip or volume, in any folder.
bool is_whole_name(std::string_view name) {
    return is_npy_name(name) || is_video_name(name);
}

bool is_volume_name(std::string_view name) {
    return is_whole_name(name) || is_tiff_name(name);
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

ClipFiles::ClipFiles(std::int64_t files, Name name, bool by_class) : name_(std::move(name)) {
    std::string_view folder;
    const auto end_clip = [&] {
        const auto begin = files_.begin() + begins_.back();
        if (begin != files_.end()) {
            std::sort(begin, files_.end(), [&](std::int64_t one, std::int64_t other) {
                return before_by_numbers(name_(one), name_(other));
            });
            begins_.push_back(std::ssize(files_));
        }
    };
    bool alone = true;
    for (std::int64_t file = 0; file < files; ++file) {
        const std::string_view own = name_(file);
        const std::string_view in = folder_of(own);
        const bool in_class = by_class && in.find('/') == std::string_view::npos;
        if (in_class && !is_volume_name(own)) {
            throw DataError({.path = {}, .key = std::string(own)},
                            {.where = "clips",
                             .expected = "a folder of frames for each clip, such as class/clip/000.jpg, or a video, a "
                                         ".npy or a TIFF file",
                             .got = fmt::format("the image {}", own),
                             .hint = "leave data.frames out for single images"});
        }
        const bool follows = !alone && in == folder;
        alone = is_whole_name(own) || (in_class && is_volume_name(own));
        if (alone || !follows) {
            end_clip();
        }
        files_.push_back(file);
        folder = in;
    }
    end_clip();
}

std::span<const std::int64_t> ClipFiles::files(std::int64_t clip) const {
    const auto at = static_cast<std::size_t>(clip);
    return std::span(files_).subspan(static_cast<std::size_t>(begins_[at]),
                                     static_cast<std::size_t>(begins_[at + 1] - begins_[at]));
}

bool ClipFiles::is_one_file(std::int64_t clip) const {
    return files(clip).size() == 1 && is_volume_name(name_(files(clip).front()));
}

std::string ClipFiles::key(std::int64_t clip) const {
    const std::string_view first = name_(files(clip).front());
    return std::string(is_one_file(clip) ? first : folder_of(first));
}

void ClipFiles::read(std::int64_t clip, Sample& sample,
                     const std::function<void(std::int64_t file, FieldValue& value)>& read) const {
    const std::span<const std::int64_t> own = files(clip);
    if (is_one_file(clip)) {
        read(own.front(), sample);
        return;
    }
    for (const std::int64_t frame : sample.begin_clip(std::ssize(own))) {
        read(own[static_cast<std::size_t>(frame)], sample.frames.emplace_back());
    }
}

}  // namespace stoker
