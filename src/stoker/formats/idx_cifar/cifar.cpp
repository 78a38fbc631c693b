// A binary record is one byte of label (CIFAR-100: two, coarse and fine) and planes (3, 32, 32) of red, green and blue.
// The pickles have the same planes as an array (N, 3072) under "data", and labels as lists.
#include "stoker/formats/idx_cifar/cifar.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/array.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/class_names.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr std::size_t kImageBytes = 3 * kSide * kSide;
constexpr ImageArray kImage = {.height = kSide, .width = kSide, .channels = 3, .planes = true};

struct Version {
    bool hundred = false;  // CIFAR-100
    bool binary = false;
};

// Binary files are preferred, since they are quicker to open.
std::optional<Version> find_version(const fs::path& directory) {
    const auto has = [&](const char* name) { return is_file(directory / name); };
    if (has("data_batch_1.bin") || has("test_batch.bin")) {
        return Version{.binary = true};
    }
    if (has("data_batch_1") || has("test_batch")) {
        return Version{};
    }
    if (has("fine_label_names.txt") && (has("train.bin") || has("test.bin"))) {
        return Version{.hundred = true, .binary = true};
    }
    if (has("meta") && (has("train") || has("test"))) {
        return Version{.hundred = true};
    }
    return std::nullopt;
}

std::vector<std::string> batch_names(Version version, Split split) {
    const char* extension = version.binary ? ".bin" : "";
    if (version.hundred) {
        return {fmt::format("{}{}", split_name(split), extension)};
    }
    if (split == Split::test) {
        return {fmt::format("test_batch{}", extension)};
    }
    std::vector<std::string> names;
    for (int i = 1; i <= 5; ++i) {
        names.push_back(fmt::format("data_batch_{}{}", i, extension));
    }
    return names;
}

std::vector<std::string> lines_of(const fs::path& path) {
    const std::string text = class_text(path);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string line = text.substr(at, end - at);
        while (line.ends_with('\r') || line.ends_with(' ')) {
            line.pop_back();
        }
        if (!line.empty()) {
            push_checked(lines, std::move(line));
        }
        at = end + 1;
    }
    return lines;
}

std::vector<std::string> names_in_pickle(const fs::path& path, std::string_view key) {
    return with_place({.path = path.string()}, [&] {
        const MappedFile file(path);
        Pickle pickle(path.string());
        const auto names = pickle.read(file.bytes()).find(key);
        if (!names) {
            throw DataError({}, {.where = "cifar", .expected = fmt::format("a list {}", key), .got = "none"});
        }
        std::vector<std::string> classes;
        for (std::size_t i = 0; i < names->size(); ++i) {
            names->count_copied((*names)[i].text().size());
            classes.emplace_back((*names)[i].text());
        }
        return classes;
    });
}

// Throws InvalidArgument for fields that CIFAR does not have.
bool wants_coarse(const FieldNames& fields, bool hundred, const std::string& path) {
    const std::vector<std::string> labels = hundred
                                                ? std::vector<std::string>{"", "labels", "fine_labels", "coarse_labels"}
                                                : std::vector<std::string>{"", "labels"};
    const bool label_fits = fields.unlabelled || std::ranges::find(labels, fields.label) != labels.end();
    if (!label_fits || (!fields.image.empty() && fields.image != "data")) {
        throw InvalidArgument(
            {.where = path,
             .expected = fmt::format("the fields data and {}", fmt::join(std::span(labels).subspan(1), ", ")),
             .got = fmt::format("{:?} and {:?}", fields.image, fields.label)});
    }
    return fields.label == "coarse_labels";
}

}  // namespace

bool holds_cifar(const fs::path& directory) {
    return find_version(directory).has_value();
}

CifarDataset::CifarDataset(const fs::path& directory, Split split, const FieldNames& fields)
    : path_(directory.string()), split_(split) {
    const auto version = find_version(directory);
    if (!version) {
        throw DataError({.path = path_},
                        {.where = "cifar", .expected = "the files of CIFAR-10 or CIFAR-100", .got = "none of them"});
    }
    hundred_ = version->hundred;
    binary_ = version->binary;
    coarse_ = wants_coarse(fields, hundred_, path_);
    read_classes(directory);
    for (const std::string& name : batch_names(*version, split)) {
        const fs::path path = directory / name;
        if (!is_file(path)) {
            throw DataError({.path = path_}, {.where = "cifar", .expected = name, .got = "no such file"});
        }
        Batch& batch = batches_.emplace_back();
        batch.path = path.string();
        batch.file = MappedFile(path);
        bytes_ += static_cast<std::int64_t>(batch.file.bytes().size());
        with_place({.path = batch.path}, [&] { binary_ ? open_records(batch) : open_pickle(batch); });
        size_ += batch.count;
    }
    if (size_ == 0) {
        throw DataError({.path = path_}, {.where = "cifar", .expected = "at least one image", .got = "none"});
    }
}

void CifarDataset::refuse(const Batch& batch, std::int64_t offset, std::string expected, std::string got) const {
    throw DataError({.path = batch.path, .offset = offset},
                    {.where = "cifar", .expected = std::move(expected), .got = std::move(got)});
}

// The class names are numbers if the file of names is missing.
void CifarDataset::read_classes(const fs::path& directory) {
    const std::string file = !binary_    ? (hundred_ ? "meta" : "batches.meta")
                             : !hundred_ ? "batches.meta.txt"
                             : coarse_   ? "coarse_label_names.txt"
                                         : "fine_label_names.txt";
    if (is_file(directory / file)) {
        classes_ = binary_ ? lines_of(directory / file)
                           : names_in_pickle(directory / file, !hundred_ ? "label_names"
                                                               : coarse_ ? "coarse_label_names"
                                                                         : "fine_label_names");
        return;
    }
    classes_ = numbered_classes(!hundred_ ? 10 : coarse_ ? 20 : 100);
}

void CifarDataset::open_records(Batch& batch) const {
    const std::size_t label_bytes = hundred_ ? 2 : 1;
    const auto bytes = batch.file.bytes();
    batch.step = label_bytes + kImageBytes;
    if (bytes.size() % batch.step != 0) {
        refuse(batch, static_cast<std::int64_t>(bytes.size() / batch.step * batch.step),
               fmt::format("records of {} bytes each", batch.step), fmt::format("{} bytes", bytes.size()));
    }
    batch.count = static_cast<std::int64_t>(bytes.size() / batch.step);
    batch.pixels = bytes.empty() ? bytes : bytes.subspan(label_bytes);
}

void CifarDataset::open_pickle(Batch& batch) const {
    batch.pickle = std::make_unique<Pickle>(batch.path);
    const PickleValue root = batch.pickle->read(batch.file.bytes());
    const char* label_name = !hundred_ ? "labels" : coarse_ ? "coarse_labels" : "fine_labels";
    const auto data = root.find("data");
    const auto labels = root.find(label_name);
    if (!data || !labels) {
        refuse(batch, 0, fmt::format("a dict with data and {}", label_name), root.describe());
    }
    const ArrayView pixels = data->array();
    const bool fits = pixels.type.is_uint8() && !pixels.fortran && pixels.shape.size() == 2 &&
                      pixels.shape[1] == std::int64_t{kImageBytes};
    if (!fits || labels->size() != static_cast<std::size_t>(pixels.shape[0])) {
        refuse(batch, 0, fmt::format("uint8 data of (N, {}) and N labels", kImageBytes),
               fmt::format("{} and a {}", data->describe(), labels->describe()));
    }
    batch.count = pixels.shape[0];
    batch.pixels = pixels.bytes;
    batch.step = kImageBytes;
    batch.labels.resize(labels->size());
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
        batch.labels[i] = (*labels)[i].integer();
    }
}

CifarDataset::Position CifarDataset::position(std::int64_t index) const {
    check_index(index);
    std::int64_t at = index;
    auto batch = batches_.begin();
    for (; at >= batch->count; ++batch) {
        at -= batch->count;
    }
    return {.batch = &*batch, .at = static_cast<std::size_t>(at)};
}

std::int64_t CifarDataset::label_of(const Position& position) const {
    const Batch& batch = *position.batch;
    const std::size_t offset = position.at * batch.step + (hundred_ && !coarse_ ? 1 : 0);  // of the binary label
    const std::int64_t label =
        binary_ ? std::to_integer<std::int64_t>(batch.file.bytes()[offset]) : batch.labels[position.at];
    if (label < 0 || label >= static_cast<std::int64_t>(classes_.size())) {
        throw DataError({.path = batch.path, .offset = binary_ ? std::optional<std::int64_t>(offset) : std::nullopt},
                        {.where = "cifar",
                         .expected = fmt::format("a label below {}", classes_.size()),
                         .got = fmt::format("{}", label)});
    }
    return label;
}

std::optional<std::int64_t> CifarDataset::label(std::int64_t index) const {
    return label_of(position(index));
}

void CifarDataset::read(std::int64_t index, Sample& sample) const {
    const Position at = position(index);
    sample.label = label_of(at);
    set_pixels(kImage, false, at.batch->pixels.subspan(at.at * at.batch->step, kImageBytes), sample);
}

std::string CifarDataset::key(std::int64_t index) const {
    return fmt::format("{}/{}", split_name(split_), index);
}

}  // namespace stoker
