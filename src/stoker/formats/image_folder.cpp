// Walks the class folders as torchvision's make_dataset does: all folders of a class in the order
// of their paths, in each of them the files in the order of their names. Hidden ones are not for data.
#include "stoker/formats/image_folder.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtensions[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm"};
// Images that no codec of ours reads: counted, because somebody will look for them.
constexpr std::string_view kOtherExtensions[] = {".tif", ".tiff", ".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> extensions) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
    return std::ranges::any_of(extensions, [&](std::string_view extension) {
        return name.size() >= extension.size() &&
               std::ranges::equal(name.substr(name.size() - extension.size()), extension, {}, lower);
    });
}

struct Listing {
    std::vector<std::string> folders;
    std::vector<std::string> images;
    std::int64_t others = 0;  // images of other types
};

// A link to a folder that contains the link would be walked for ever.
void check_loop(const fs::path& link, const fs::path& root) {
    std::error_code error;
    for (fs::path above = link.parent_path(); above.native().size() >= root.native().size();
         above = above.parent_path()) {
        if (fs::equivalent(above, link, error)) {
            throw DataError({.path = link.string()}, {.where = "image_folder",
                                                      .expected = "links that lead to no folder above them",
                                                      .got = fmt::format("a link to {}", above.string()),
                                                      .hint = "remove the link"});
        }
        if (above == root) {
            break;
        }
    }
}

// The entries of one folder, sorted bytewise. The type comes with the name on common file systems,
// so that only links cost a further call.
Listing list(const fs::path& folder, const fs::path& root) {
    Listing listing;
    std::error_code error;
    std::error_code unknown;  // a type that cannot be told is no folder, as in Python's os.walk
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::string name = entry->path().filename().string();
        if (name.starts_with('.')) {
            continue;  // what tools leave behind: .ipynb_checkpoints, ._001.jpg
        }
        if (entry->is_directory(unknown)) {
            if (entry->is_symlink(unknown)) {
                check_loop(entry->path(), root);
            }
            listing.folders.push_back(std::move(name));
        } else if (is_image_name(name)) {
            listing.images.push_back(std::move(name));
        } else if (ends_with_any(name, kOtherExtensions)) {
            ++listing.others;
        }
    }
    if (error) {
        throw IoError({.where = folder.string(), .expected = "a readable folder", .got = error.message()});
    }
    std::ranges::sort(listing.folders);
    std::ranges::sort(listing.images);
    return listing;
}

struct ImagesOf {
    std::string folder;  // within the root
    std::vector<std::string> names;
};

void walk(const fs::path& root, const std::string& folder, std::vector<ImagesOf>& found, std::int64_t& others) {
    Listing listing = list(root / folder, root);
    others += listing.others;
    found.push_back({folder, std::move(listing.images)});
    for (const std::string& below : listing.folders) {
        walk(root, folder + "/" + below, found, others);
    }
}

[[noreturn]] void refuse(const std::string& root, std::string got, std::string hint) {
    throw DataError({.path = root}, {.where = "image_folder",
                                     .expected = "one subfolder of .jpg, .jpeg, .png, .webp, .bmp, .ppm or .pgm images "
                                                 "for each class, such as cat/001.jpg",
                                     .got = std::move(got),
                                     .hint = std::move(hint)});
}

}  // namespace

bool is_image_name(std::string_view name) {
    return ends_with_any(name, kExtensions);
}

ImageFolderSource::ImageFolderSource(const fs::path& root) : root_(root.string()), begin_{0} {
    Listing top = list(root, root);
    if (top.folders.empty()) {
        refuse(root_, fmt::format("no subfolder and {} images", top.images.size()),
               top.images.empty() ? "" : "move the images into a subfolder for each class");
    }
    classes_ = std::move(top.folders);
    std::string without;
    std::size_t empty = 0;
    for (std::size_t label = 0; label < classes_.size(); ++label) {
        const std::size_t before = labels_.size();
        add_class(label);
        if (labels_.size() == before && ++empty <= 5) {
            without += (without.empty() ? "" : ", ") + classes_[label];
        }
    }
    if (empty > 0) {
        refuse(
            root_,
            fmt::format("none in {} of {} subfolders: {}{}", empty, classes_.size(), without, empty > 5 ? ", ..." : ""),
            other_images_ > 0 ? fmt::format("convert the {} images of other types", other_images_)
                              : "remove the empty subfolders or fill them");
    }
}

void ImageFolderSource::add_class(std::size_t label) {
    std::vector<ImagesOf> found;
    walk(root_, classes_[label], found, other_images_);
    std::ranges::sort(found, {}, &ImagesOf::folder);  // "a-b" before "a/b", which the walk itself would not give
    for (const ImagesOf& images : found) {
        for (const std::string& file : images.names) {
            names_ += images.folder;
            names_ += '/';
            names_ += file;
            begin_.push_back(names_.size());
            labels_.push_back(static_cast<std::int32_t>(label));
        }
    }
}

std::size_t ImageFolderSource::checked(std::int64_t index) const {
    if (index < 0 || index >= size()) {
        throw InvalidArgument(
            {.where = root_, .expected = fmt::format("an index below {}", size()), .got = fmt::format("{}", index)});
    }
    return static_cast<std::size_t>(index);
}

std::optional<std::int64_t> ImageFolderSource::label(std::int64_t index) const {
    return labels_[checked(index)];
}

std::string_view ImageFolderSource::name(std::int64_t index) const {
    const std::size_t at = checked(index);
    return std::string_view(names_).substr(begin_[at], begin_[at + 1] - begin_[at]);
}

void ImageFolderSource::read(std::int64_t index, Sample& sample) const {
    read_file(fs::path(root_) / name(index), sample.storage);
    sample.bytes = sample.storage.bytes();
    sample.encoded = true;
    sample.height = 0;
    sample.width = 0;
    sample.channels = 0;
    sample.label = labels_[static_cast<std::size_t>(index)];
}

std::int64_t ImageFolderSource::bytes() const {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
        std::error_code missing;  // a file that has gone has no bytes; reading it says so
        const auto bytes = fs::file_size(fs::path(root_) / name(i), missing);
        total += missing ? 0 : static_cast<std::int64_t>(bytes);
    }
    return total;
}

}  // namespace stoker
