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

ImageFolder::ImageFolder(const fs::path& root, bool clips)
    : root_(root.string()), index_(FolderIndex::open(root)), folder_(root), prefetcher_([this](std::int64_t index) {
          return index < 0 || index >= index_.size() || folder_.will_need(index_.name(index));
      }) {
    if (clips) {
        const auto name = [this](std::int64_t file) { return index_.name(file); };
        clips_.emplace(index_.size(), name, [&](std::int64_t file) {
            const std::string_view own = name(file);
            const bool in_class = own.find('/') == own.rfind('/');
            if (in_class && !is_clip_file(own, /*volumes=*/true)) {
                throw DataError({.path = root_, .key = std::string(own)},
                                {.where = "clips",
                                 .expected = "a folder of frames for each clip, such as class/clip/000.jpg, or a "
                                             "video, a .npy or a TIFF file",
                                 .got = fmt::format("the image {}", own),
                                 .hint = "leave data.frames out for single images"});
            }
            return is_clip_file(own, in_class);
        });
    }
}

std::optional<std::int64_t> ImageFolder::label(std::int64_t index) const {
    check_index(index);
    return index_.label(clips_ ? clips_->files(index).front() : index);
}

std::string ImageFolder::key(std::int64_t index) const {
    check_index(index);
    return clips_ ? clips_->key(index) : std::string(index_.name(index));
}

void ImageFolder::read_file(std::int64_t file, FieldValue& value) const {
    if (!folder_.read_file(index_.name(file), value.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(value.storage.bytes(), value, clips_.has_value());
}

void ImageFolder::read(std::int64_t index, Sample& sample) const {
    sample.label = *label(index);
    if (clips_) {
        clips_->read(index, sample, [this](std::int64_t file, FieldValue& value) { read_file(file, value); });
    } else {
        read_file(index, sample);
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

ImageFileList::ImageFileList(std::vector<std::string> paths, bool clips)
    : paths_(std::move(paths)),
      folder_(is_one_folder(paths_) ? paths_.front() : "."),
      prefetcher_([this](std::int64_t index) {
          return index < 0 || index >= size() || folder_.will_need(names_[static_cast<std::size_t>(index)]);
      }) {
    LeftOut left_out;
    std::vector<bool> alone;  // each file is a sample, also among clips
    for (const std::string& path : paths_) {
        if (is_folder(path)) {
            add_folder(path, alone, left_out);
        } else if (is_image_name(path)) {
            names_.push_back(path);
            alone.push_back(true);
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
    if (clips) {
        clips_.emplace(
            std::ssize(names_),
            [this](std::int64_t file) { return std::string_view(names_.at(static_cast<std::size_t>(file))); },
            [&](std::int64_t file) { return alone[static_cast<std::size_t>(file)]; });
    }
}

void ImageFileList::add_folder(const std::string& path, std::vector<bool>& alone, LeftOut& left_out) {
    const auto add = [&](const WalkedFolder& folder) {
        const fs::path prefix = is_one_folder(paths_) ? fs::path(folder.path) : fs::path(path) / folder.path;
        for (const std::string& image : folder.images) {
            names_.push_back((prefix / image).string());
            alone.push_back(is_clip_file(image, /*volumes=*/folder.path.find('/') == std::string::npos));
        }
        for (const std::string& image : folder.unsupported) {
            left_out.add_unsupported_image((prefix / image).string());
        }
        for (const std::string& other : folder.others) {
            if (is_recording_name(other)) {
                left_out.add_other_file((prefix / other).string());
            }
        }
    };
    std::ranges::for_each(walk_all(path), add);
}

std::string ImageFileList::key(std::int64_t index) const {
    check_index(index);
    const std::string key = clips_ ? clips_->key(index) : names_[static_cast<std::size_t>(index)];
    return key.empty() ? fs::path(paths_.front()).filename().string() : key;  // the frames of the folder itself
}

void ImageFileList::read_file(std::int64_t file, FieldValue& value) const {
    if (!folder_.read_file(names_[static_cast<std::size_t>(file)], value.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(value.storage.bytes(), value, clips_.has_value());
}

void ImageFileList::prefetch(std::span<const std::int64_t> indices) const {
    if (!clips_) {
        prefetcher_.announce(indices);
    }
}

std::string ImageFileList::path() const {
    const std::size_t more = paths_.size() - 1;
    return more == 0 ? paths_.front() : fmt::format("{} and {} more", paths_.front(), more);
}

void ImageFileList::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    sample.label = -1;
    if (clips_) {
        clips_->read(index, sample, [this](std::int64_t file, FieldValue& value) { read_file(file, value); });
    } else {
        read_file(index, sample);
    }
}

}  // namespace stoker
