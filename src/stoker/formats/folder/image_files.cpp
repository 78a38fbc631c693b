// The listing is that of folder_walk.h, so names and order are the same as in folders of classes.
#include "stoker/formats/folder/image_files.h"

#include "stoker/base/error.h"
#include "stoker/formats/folder/folder_walk.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
    std::error_code unknown;
    return fs::is_directory(path, unknown);
}

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
