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

ImageFolder::ImageFolder(const fs::path& root)
    : root_(root.string()), index_(FolderIndex::open(root)), folder_(root), prefetcher_([this](std::int64_t index) {
          return index < 0 || index >= size() || folder_.will_need(index_.name(index));
      }) {}

std::optional<std::int64_t> ImageFolder::label(std::int64_t index) const {
    check_index(index);
    return index_.label(index);
}

std::string_view ImageFolder::name(std::int64_t index) const {
    check_index(index);
    return index_.name(index);
}

void ImageFolder::read(std::int64_t index, Sample& sample) const {
    if (!folder_.read_file(name(index), sample.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(sample.storage.bytes(), sample);
    sample.label = index_.label(index);
}

void ImageFolder::prefetch(std::span<const std::int64_t> indices) const {
    prefetcher_.announce(indices);
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
    for (std::int64_t i = 0; i < size(); ++i) {
        std::error_code missing;  // a removed file counts as 0 bytes; reading it throws
        const auto bytes = fs::file_size(fs::path(root_) / name(i), missing);
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
