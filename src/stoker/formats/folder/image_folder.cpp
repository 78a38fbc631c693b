// Reads the files that the index lists. The listing of ImageFileList is that of folder_walk.h, so names and order are
// the same as in folders of classes.
#include "stoker/formats/folder/image_folder.h"

#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/folder/folder_walk.h"
#include "stoker/formats/image_kind.h"

namespace stoker {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) {
    return is_folder(path) ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::vector<std::string> names_in(const fs::path& path) {
    if (!is_folder(path)) {
        return {path.filename().string()};
    }
    std::vector<std::string> names = walk_folder(path, "").images;
    if (names.empty()) {
        throw DataError({.path = path.string()}, {.where = "data", .expected = "image files", .got = "none"});
    }
    return names;
}

}  // namespace

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
    sample.set_encoded_image(sample.storage.bytes());
    sample.label = index_.label(index);
}

void ImageFolder::prefetch(std::span<const std::int64_t> indices) const {
    prefetcher_.announce(indices);
}

std::string ImageFolder::advice() const {
    const std::int64_t count = index_.unsupported_images();
    return count == 0
               ? ""
               : fmt::format("{} of unsupported types (.tif, .gif, .heic, ...) left out: convert to .png or .jpg",
                             pluralize(count, "image"));
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

bool ImageFileList::holds(const fs::path& path) {
    if (!is_folder(path)) {
        return is_image_name(path.native()) && fs::is_regular_file(path);
    }
    const WalkedFolder walked = walk_folder(path, "");
    return walked.folders.empty() && !walked.images.empty();
}

ImageFileList::ImageFileList(const fs::path& path)
    : path_(path.string()), names_(names_in(path)), folder_(folder_of(path)) {}

void ImageFileList::read(std::int64_t index, Sample& sample) const {
    folder_.read_file(names_.at(static_cast<std::size_t>(index)), sample.storage);
    sample.set_encoded_image(sample.storage.bytes());
    sample.label = -1;
}

}  // namespace stoker
