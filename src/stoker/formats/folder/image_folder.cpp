// Files by name; which there are is the index's business.
#include "stoker/formats/folder/image_folder.h"

#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"

namespace stoker {

namespace fs = std::filesystem;

ImageFolder::ImageFolder(const fs::path& root)
    : root_(root.string()), index_(FolderIndex::open(root)), folder_(root), ahead_([this](std::int64_t index) {
          return index < 0 || index >= size() || folder_.will_need(index_.name(index));
      }) {}

std::int64_t ImageFolder::checked(std::int64_t index) const {
    if (index < 0 || index >= size()) {
        throw InvalidArgument(
            {.where = root_, .expected = fmt::format("an index below {}", size()), .got = fmt::format("{}", index)});
    }
    return index;
}

std::optional<std::int64_t> ImageFolder::label(std::int64_t index) const {
    return index_.label(checked(index));
}

std::string_view ImageFolder::name(std::int64_t index) const {
    return index_.name(checked(index));
}

void ImageFolder::read(std::int64_t index, Sample& sample) const {
    if (!folder_.read_file(name(index), sample.storage)) {
        ahead_.waited();
    }
    sample.bytes = sample.storage.bytes();
    sample.encoded = true;
    sample.height = 0;
    sample.width = 0;
    sample.channels = 0;
    sample.label = index_.label(index);
}

void ImageFolder::prefetch(std::span<const std::int64_t> indices) const {
    ahead_.announce(indices);
}

std::string ImageFolder::advice() const {
    const std::int64_t others = index_.other_images();
    return others == 0
               ? ""
               : fmt::format("{} of types that are not read (.tif, .gif, .heic, ...) left out: convert to .png or .jpg",
                             pluralize(others, "image"));
}

std::int64_t ImageFolder::bytes() const {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
        std::error_code missing;  // a file that has gone has no bytes; reading it says so
        const auto bytes = fs::file_size(fs::path(root_) / name(i), missing);
        total += missing ? 0 : static_cast<std::int64_t>(bytes);
    }
    return total;
}

}  // namespace stoker
