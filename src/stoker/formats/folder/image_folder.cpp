// Reads the files that the index lists. The listing of ImageFileList is that of folder_walk.h, so names and order are
// the same as in folders of classes.
#include "stoker/formats/folder/image_folder.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/folder_walk.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/left_out.h"

namespace stoker {

namespace fs = std::filesystem;

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

ImageFolder::ImageFolder(const fs::path& root, bool clips)
    : root_(root.string()), index_(FolderIndex::open(root)), folder_(root), prefetcher_([this](std::int64_t index) {
          return index < 0 || index >= index_.size() || folder_.will_need(index_.name(index));
      }) {
    if (clips) {
        clips_ = find_clips();
    }
}

// The listing has the files of one folder in a row.
ImageFolder::Clips ImageFolder::find_clips() const {
    Clips clips;
    std::string_view folder;
    const auto name = [this](std::int64_t file) { return index_.name(file); };
    const auto end_clip = [&] {
        const auto begin = clips.files.begin() + clips.begins.back();
        if (begin != clips.files.end()) {
            std::sort(begin, clips.files.end(),
                      [&](std::int64_t one, std::int64_t other) { return before_by_numbers(name(one), name(other)); });
            clips.begins.push_back(std::ssize(clips.files));
        }
    };
    for (std::int64_t file = 0; file < index_.size(); ++file) {
        const std::string_view in = folder_of(name(file));
        const bool in_class = in.find('/') == std::string_view::npos;
        const bool alone = is_whole_name(name(file)) || (in_class && is_volume_name(name(file)));
        if (in_class && !alone) {
            throw DataError({.path = root_, .key = std::string(name(file))},
                            {.where = "clips",
                             .expected = "a folder of frames for each clip, such as class/clip/000.jpg, or a video, a "
                                         ".npy or a TIFF file",
                             .got = fmt::format("the image {}", name(file)),
                             .hint = "leave data.frames out for single images"});
        }
        if (alone || in != folder) {
            end_clip();
        }
        clips.files.push_back(file);
        folder = alone ? "" : in;
    }
    end_clip();
    return clips;
}

std::span<const std::int64_t> ImageFolder::files_of(std::int64_t clip) const {
    const auto at = static_cast<std::size_t>(clip);
    const std::int64_t begin = clips_->begins[at];
    return std::span(clips_->files)
        .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(clips_->begins[at + 1] - begin));
}

std::optional<std::int64_t> ImageFolder::label(std::int64_t index) const {
    check_index(index);
    return index_.label(clips_ ? files_of(index).front() : index);
}

std::string ImageFolder::key(std::int64_t index) const {
    check_index(index);
    if (!clips_) {
        return std::string(index_.name(index));
    }
    const std::span<const std::int64_t> files = files_of(index);
    const std::string_view first = index_.name(files.front());
    return std::string(files.size() == 1 && is_volume_name(first) ? first : folder_of(first));
}

void ImageFolder::read_file(std::int64_t file, FieldValue& value) const {
    if (!folder_.read_file(index_.name(file), value.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(value.storage.bytes(), value, clips_.has_value());
}

void ImageFolder::read(std::int64_t index, Sample& sample) const {
    sample.label = *label(index);
    if (!clips_) {
        read_file(index, sample);
        return;
    }
    const std::span<const std::int64_t> files = files_of(index);
    if (files.size() == 1 && is_volume_name(index_.name(files.front()))) {
        read_file(files.front(), sample);
        return;
    }
    sample.set_raw({}, 0, 0, 0);
    for (const std::int64_t frame : sample.wanted.of(std::ssize(files))) {
        read_file(files[static_cast<std::size_t>(frame)], sample.frames.emplace_back());
    }
}

void ImageFolder::prefetch(std::span<const std::int64_t> indices) const {
    if (!clips_) {  // which frames are read is not known before
        prefetcher_.announce(indices);
    }
}

std::string ImageFolder::advice() const {
    std::string advice(index_.left_out());
    if (const std::string table = labels_table(root_); !table.empty()) {
        const std::string found = classes().size() == 1 ? "one class" : "its subfolders are the classes";
        advice +=
            fmt::format("{}{}; if \"{}\" has the labels, give its path", advice.empty() ? "" : "; ", found, table);
    }
    return advice;
}

std::int64_t ImageFolder::bytes() const {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < index_.size(); ++i) {
        std::error_code missing;  // a removed file counts as 0 bytes; reading it throws
        const auto bytes = fs::file_size(fs::path(root_) / index_.name(i), missing);
        total += missing ? 0 : static_cast<std::int64_t>(bytes);
    }
    return total;
}

namespace {

bool is_one_folder(const std::vector<std::string>& paths) {
    return paths.size() == 1 && is_folder(paths.front());
}

}  // namespace

ImageFileList::ImageFileList(std::vector<std::string> paths)
    : paths_(std::move(paths)),
      folder_(is_one_folder(paths_) ? paths_.front() : "."),
      prefetcher_(
          [this](std::int64_t index) { return index < 0 || index >= size() || folder_.will_need(name(index)); }) {
    LeftOut left_out;
    for (const std::string& path : paths_) {
        if (is_folder(path)) {
            add_folder(path, left_out);
        } else if (is_image_name(path)) {
            names_.push_back(path);
        } else if (is_unsupported_image_name(path)) {
            left_out.add_unsupported_image(path);
        } else {
            left_out.add_other_file(path);
        }
    }
    left_out_ = left_out.text();
    if (names_.empty()) {
        throw DataError({.path = path()}, {.where = "data",
                                           .expected = fmt::format("images: {} files", image_endings()),
                                           .got = "none",
                                           .hint = left_out_});
    }
}

void ImageFileList::add_folder(const std::string& path, LeftOut& left_out) {
    const auto add = [&](const WalkedFolder& folder) {
        const fs::path prefix = is_one_folder(paths_) ? fs::path(folder.path) : fs::path(path) / folder.path;
        for (const std::string& image : folder.images) {
            names_.push_back((prefix / image).string());
        }
        for (const std::string& image : folder.unsupported) {
            left_out.add_unsupported_image((prefix / image).string());
        }
    };
    const WalkedFolder top = walk_folder(path, "");
    add(top);
    for (const std::string& subfolder : top.folders) {
        std::ranges::for_each(walk_class(path, subfolder), add);
    }
}

const std::string& ImageFileList::name(std::int64_t index) const {
    check_index(index);
    return names_[static_cast<std::size_t>(index)];
}

std::string ImageFileList::path() const {
    const std::size_t more = paths_.size() - 1;
    return more == 0 ? paths_.front() : fmt::format("{} and {} more", paths_.front(), more);
}

void ImageFileList::read(std::int64_t index, Sample& sample) const {
    if (!folder_.read_file(name(index), sample.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(sample.storage.bytes(), sample);
    sample.label = -1;
}

}  // namespace stoker
