// Combines images and labels, and finds their files in a directory by name.
#include "stoker/formats/idx_cifar/idx.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void bad(std::size_t offset, std::string expected, std::string got) {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "idx", .expected = std::move(expected), .got = std::move(got)});
}

// Dimension `at` of the images, checked to be in [1, limit].
int image_size(const IdxFile& file, std::size_t at, const char* what, std::int64_t limit) {
    const std::int64_t size = file.shape()[at];
    if (size < 1 || size > limit) {
        bad(4 + 4 * at, fmt::format("a {} of 1 to {}", what, limit), fmt::format("{}", size));
    }
    return static_cast<int>(size);
}

// The parts of a file's name.
struct IdxName {
    std::string set;  // the prefix before "train-images": empty for MNIST, "emnist-letters-" for EMNIST
    Split split = Split::train;
    bool labels = false;
};

std::optional<IdxName> parse_name(std::string name) {
    constexpr std::array<std::pair<std::string_view, Split>, 3> kSplits = {
        {{"train", Split::train}, {"t10k", Split::test}, {"test", Split::test}}};
    constexpr std::array<std::pair<std::string_view, bool>, 3> kTails = {
        {{"-images-idx3-ubyte", false}, {"-images-idx4-ubyte", false}, {"-labels-idx1-ubyte", true}}};
    if (name.ends_with(".gz")) {
        name.resize(name.size() - 3);
    }
    std::ranges::replace(name, '.', '-');
    for (const auto& [stem, split] : kSplits) {
        for (const auto& [tail, labels] : kTails) {
            const std::string ending = std::string(stem) += tail;
            if (name.ends_with(ending)) {
                name.resize(name.size() - ending.size());
                if (name.empty() || name.ends_with('-')) {
                    return IdxName{.set = std::move(name), .split = split, .labels = labels};
                }
                return std::nullopt;
            }
        }
    }
    return std::nullopt;
}

// Calls `visit` with the path and the parsed name of every IDX file in the directory, sorted by path.
template <typename Visit>
void each_idx(const fs::path& directory, Visit visit) {
    std::map<fs::path, IdxName> files;
    for (const fs::path& path : list_folder(directory)) {
        const std::string file = path.filename().string();
        if (auto name = is_hidden_name(file) ? std::nullopt : parse_name(file)) {
            files.emplace(path, std::move(*name));
        }
    }
    for (const auto& [path, name] : files) {
        visit(path, name);
    }
}

}  // namespace

IdxDataset::IdxDataset(const fs::path& images, const fs::path& labels, Split split)
    : path_(images.string()), images_(images), labels_(labels), split_(split) {
    with_place({.path = path_}, [&] {
        const std::size_t dimensions = images_.shape().size();
        if (dimensions < 3) {
            bad(3, "images of 3 or 4 dimensions (N, H, W[, C])", fmt::format("{}", dimensions));
        }
        constexpr std::int64_t kMaxSide = 65535;
        image_size(images_, 0, "number of images", std::numeric_limits<int>::max());
        height_ = image_size(images_, 1, "height", kMaxSide);
        width_ = image_size(images_, 2, "width", kMaxSide);
        channels_ = dimensions == 4 ? image_size(images_, 3, "number of channels", 4) : 1;
    });
    if (labels_.shape() != Shape{size()}) {
        throw DataError({.path = labels.string(), .offset = labels_.shape().size() == 1 ? 4 : 3},
                        {.where = "idx",
                         .expected = fmt::format("{} labels in one dimension, one for each image of {}", size(), path_),
                         .got = fmt::format("{}", fmt::join(labels_.shape(), " x "))});
    }
    classes_ = numbered_classes(std::to_integer<int>(*std::ranges::max_element(labels_.bytes())) + 1);
}

std::optional<std::int64_t> IdxDataset::label(std::int64_t index) const {
    check_index(index);
    return std::to_integer<std::int64_t>(labels_.bytes()[static_cast<std::size_t>(index)]);
}

void IdxDataset::read(std::int64_t index, Sample& sample) const {
    sample.label = *label(index);
    const auto at = static_cast<std::size_t>(index);
    const std::size_t image_bytes = images_.bytes().size() / static_cast<std::size_t>(size());
    sample.set_raw(images_.bytes().subspan(at * image_bytes, image_bytes), height_, width_, channels_);
}

std::string IdxDataset::key(std::int64_t index) const {
    return fmt::format("{}/{}", split_name(split_), index);
}

bool holds_idx(const fs::path& directory) {
    bool found = false;
    each_idx(directory, [&](const fs::path&, const IdxName& name) { found = found || !name.labels; });
    return found;
}

IdxPaths find_idx(const fs::path& directory, Split split) {
    std::map<std::string, IdxPaths> sets;
    each_idx(directory, [&](const fs::path& path, const IdxName& name) {
        if (name.split == split) {
            fs::path& place = name.labels ? sets[name.set].labels : sets[name.set].images;
            if (place.empty() || place.extension() == ".gz") {
                place = path;
            }
        }
    });
    if (sets.size() > 1) {
        std::vector<std::string> names;
        std::ranges::transform(sets, std::back_inserter(names), [](const auto& set) { return set.first; });
        throw DataError({.path = directory.string()}, {.where = "idx",
                                                       .expected = "the files of one data set",
                                                       .got = fmt::format("{}", fmt::join(names, ", ")),
                                                       .hint = "put each data set into a separate folder"});
    }
    IdxPaths paths = sets.empty() ? IdxPaths{} : sets.begin()->second;
    if (paths.images.empty() || paths.labels.empty()) {
        const std::string_view stem = split == Split::train ? "train" : "t10k";
        throw DataError({.path = directory.string()},
                        {.where = "idx",
                         .expected = fmt::format("{0}-images-idx3-ubyte and {0}-labels-idx1-ubyte, plain or .gz", stem),
                         .got = sets.empty()           ? "neither"
                                : paths.labels.empty() ? "the images only"
                                                       : "the labels only"});
    }
    return paths;
}

}  // namespace stoker
