// Reads the files that the index lists.
#include "stoker/formats/folder/image_folder.h"

#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"

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

}  // namespace stoker
