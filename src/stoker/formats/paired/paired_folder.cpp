#include "stoker/formats/paired/paired_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <unordered_map>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/folder_walk.h"
#include "stoker/formats/left_out.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImages = "images";
constexpr std::array<std::string_view, 3> kMasks = {"masks", "annotations", "labels"};
constexpr std::array<std::string_view, 2> kTrain = {"train", "training"};
constexpr std::array<std::string_view, 4> kTest = {"val", "validation", "test", "testing"};

// The first of the names that is a subfolder; empty if there is none.
std::string find_subfolder(const fs::path& folder, std::span<const std::string_view> names) {
    const auto* const found = std::find_if(names.data(), names.data() + names.size(),
                                           [&](std::string_view name) { return is_folder(folder / name); });
    return found == names.data() + names.size() ? "" : std::string(*found);
}

bool has_splits_in(const fs::path& images) {
    return !find_subfolder(images, kTrain).empty() && !find_subfolder(images, kTest).empty();
}

// "images", or "images/training" where the folder has a subfolder for each split.
std::string of_split(const fs::path& root, const std::string& folder, Split split) {
    if (!has_splits_in(root / folder)) {
        return folder;
    }
    return fmt::format(
        "{}/{}", folder,
        split == Split::train ? find_subfolder(root / folder, kTrain) : find_subfolder(root / folder, kTest));
}

// The images below the folder, sorted by folder and name, within it.
std::vector<std::string> list_images(const fs::path& folder, LeftOut& left_out) {
    std::vector<std::string> names;
    const auto add = [&](const WalkedFolder& walked) {
        const std::string prefix = walked.path.empty() ? "" : walked.path + "/";
        for (const std::string& name : walked.images) {
            names.push_back(prefix + name);
        }
        for (const std::string& name : walked.unsupported) {
            left_out.add_unsupported_image(prefix + name);
        }
    };
    std::ranges::for_each(walk_all(folder), add);
    return names;
}

std::string_view without_ending(std::string_view name) {
    return name.substr(0, name.rfind('.'));  // an image's name has an ending
}

std::string folder_of(const fs::path& root, const FieldRequest& request, FieldKind kind) {
    if (!request.from.empty() || kind == FieldKind::image) {
        return request.source();
    }
    const std::string found = is_folder(root / request.name) ? "" : find_subfolder(root, kMasks);
    return found.empty() ? request.name : found;
}

[[noreturn]] void refuse(const fs::path& path, std::string expected, std::string got, std::string hint = "") {
    throw DataError(
        {.path = path.string()},
        {.where = "paired_folder", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

// Other types of images do not keep class numbers.
bool may_be_mask(const std::string& name) {
    const std::string lower = lower_case(name);
    return lower.ends_with(".png") || lower.ends_with(".tif") || lower.ends_with(".tiff");
}

}  // namespace

bool is_paired_folder(const std::string& path) {
    return is_folder(fs::path(path) / kImages) && !find_subfolder(path, kMasks).empty();
}

bool names_paired_folders(const std::string& path, const FieldNames& fields) {
    return !fields.image.empty() && !fields.more.empty() && is_folder(fs::path(path) / fields.image) &&
           std::ranges::all_of(
               fields.more, [&](const FieldRequest& request) { return is_folder(fs::path(path) / request.source()); });
}

bool paired_folder_has_splits(const std::string& path, const std::string& images) {
    return has_splits_in(fs::path(path) / (images.empty() ? kImages : images));
}

PairedFolder::PairedFolder(const std::string& path, Split split, const FieldNames& fields)
    : path_(path), files_(path, 1 + std::max<std::size_t>(fields.more.size(), 1)) {
    const fs::path root(path);
    images_ = of_split(root, fields.image.empty() ? kImages : fields.image, split);
    LeftOut left_out;
    for (const std::string& name : list_images(root / images_, left_out)) {
        files_.add(0, fmt::format("{}/{}", images_, name));
    }
    advice_ = left_out.text();
    if (size() == 0) {
        refuse(root / images_, "images", "none");
    }
    for (const FieldRequest& request :
         fields.more.empty() ? std::vector<FieldRequest>{{.name = "mask"}} : fields.more) {
        const FieldKind kind = request.kind.value_or(FieldKind::mask);
        if (!has_pixels(kind)) {
            throw Unsupported({.where = fmt::format("{}: {}", path, request.name),
                               .expected = "a field of kind mask or image",
                               .got = std::string(field_kind_name(kind))});
        }
        fields_.push_back({.name = request.name, .kind = kind, .dtype = DType::uint8});
        folders_.push_back(folder_of(root, request, kind));
        add_folder(fields_.size(), split);
    }
    classes_ = read_class_names(root / kImages, -1);
}

// Column `column` of files_: for each image the file of its name in the field's folder.
void PairedFolder::add_folder(std::size_t column, Split split) {
    const fs::path root(path_);
    const bool mask = fields_[column - 1].kind == FieldKind::mask;
    const std::string folder = of_split(root, folders_[column - 1], split);
    LeftOut other_types;
    const std::vector<std::string> names = list_images(root / folder, other_types);
    std::unordered_map<std::string_view, std::string_view> found;  // names by what comes before the ending
    for (const std::string& name : names) {
        if (!mask || may_be_mask(name)) {
            found.emplace(without_ending(name), name);
        }
    }
    std::int64_t missing = 0;
    std::string example;
    for (std::int64_t i = 0; i < size(); ++i) {
        std::string_view image = files_.name(0, i);
        image.remove_prefix(images_.size() + 1);
        const auto other = found.find(without_ending(image));
        files_.add(column, other == found.end() ? "" : fmt::format("{}/{}", folder, other->second));
        if (other == found.end() && ++missing == 1) {
            example = image;
        }
    }
    if (missing == size()) {
        const bool others = found.empty() && !names.empty();
        refuse(
            root / folder,
            mask ? fmt::format("a .png or .tif file for each image, such as {}/{}.png", folder, without_ending(example))
                 : fmt::format("an image for each image, such as {}/{}", folder, example),
            others ? fmt::format("{} of other types, such as {}", pluralize(std::ssize(names), "file"), names.front())
                   : fmt::format("{}, and none with an image's name", pluralize(std::ssize(found), "file")),
            others ? "convert masks to PNG; JPEG changes their values" : "");
    }
    if (missing > 0) {
        advice_ += fmt::format("{}{} without a {} ({}{})", advice_.empty() ? "" : "; ", pluralize(missing, "image"),
                               fields_[column - 1].name, example, missing > 1 ? ", ..." : "");
    }
}

std::string PairedFolder::image_folder() const {
    return (fs::path(path_) / images_).string();
}

std::string PairedFolder::key(std::int64_t index) const {
    check_index(index);
    return std::string(files_.name(0, index));
}

void PairedFolder::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    files_.read(0, index, sample);
    sample.label = -1;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (files_.name(i + 1, index).empty()) {
            throw DataError({.path = path_, .key = key(index)},
                            {.where = fields_[i].name,
                             .expected = fmt::format("a file of the same name in {}", folders_[i]),
                             .got = "none"});
        }
        files_.read(i + 1, index, sample.field(i));
    }
}

}  // namespace stoker
