// Finds the datasets of images, labels and keys, checks that they match, and turns their records into samples.
#include "stoker/formats/hdf5/hdf5.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_chunks.h"
#include "stoker/formats/hdf5/hdf5_columns.h"
#include "stoker/formats/hdf5/hdf5_groups.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"
#include "stoker/formats/hdf5/hdf5_records.h"
#include "stoker/formats/image_kind.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

bool is_keys(std::string_view name) {
    const std::string_view last = name.substr(name.rfind('/') + 1);
    return last == "keys" || last.starts_with("keys_") || last.ends_with("_keys");
}

// find_fields takes a single unnamed field as the images; keys must not be that field.
std::vector<std::string> without_keys(std::vector<std::string> names) {
    std::erase_if(names, is_keys);
    return names;
}

std::vector<std::string> checked_list(const Hdf5Id& file, const Hdf5Bytes& bytes) {
    require_sound_groups(bytes, hdf5_header_of(file, bytes.path()));
    return list_hdf5(file, bytes.path());
}

// The shape of one image, or of one sample's value of a field.
Shape image_shape(const Hdf5Info& info) {
    return {info.shape.begin() + 1, info.shape.end()};
}

std::string some_names(const std::vector<std::string>& names) {
    constexpr std::size_t kListed = 20;
    const auto listed = std::span(names).first(std::min(names.size(), kListed));
    return fmt::format("{}{}", fmt::join(listed, ", "), names.size() > kListed ? ", ..." : "");
}

// Images by default for variable-length bytes. Throws DataError for more elements than the file can hold, and what
// field_of_array throws.
Field describe_hdf5_field(const Hdf5Bytes& file, const Hdf5Info& info, const FieldRequest& request) {
    const std::string where = fmt::format("{}:{}", file.path(), info.name);
    if (info.kind == Hdf5Kind::encoded) {
        return field_of_encoded(request, where);
    }
    if (info.kind != Hdf5Kind::number) {
        throw Unsupported({.where = where, .expected = "numbers", .got = info.type_name});
    }
    if (hdf5_shape_bytes(info, image_shape(info), file.path()) / kMaxGzipRatio > file.size()) {
        file.damaged(0, fmt::format("values that {} bytes can hold", file.size()),
                     fmt::format("values of ({})", fmt::join(image_shape(info), ", ")));
    }
    ArrayView record;
    record.type = info.type;
    record.shape = image_shape(info);
    Field field = field_of_array(request, record, false, where);
    if (field.kind == FieldKind::boxes || request.any_length) {
        field.shape = record.shape;  // all samples have one
    }
    return field;
}

// A field that is missing may be a link to another file.
FoundFields find_in_file(const Hdf5Id& file, const std::string& path, std::span<const std::string> candidates,
                         const FieldNames& fields, Split split) {
    try {
        return find_fields(candidates, fields, split, path);
    } catch (const DataError&) {
        const std::string link = find_external_link(file, path);
        if (link.empty()) {
            throw;
        }
        throw Unsupported({.where = path,
                           .expected = "all datasets to lie within the file",
                           .got = link,
                           .hint = "copy them into one file (h5copy), or open the other file"});
    }
}

}  // namespace

struct Hdf5Dataset::Opening {
    Hdf5Id file;
    std::vector<std::string> names = {};

    Hdf5Id dataset(const std::string& name, const std::string& path) const {
        const Hdf5Lock lock;
        return {H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose, path, fmt::format("a dataset {}", name)};
    }
};

Hdf5Dataset::Hdf5Dataset(const std::string& path, Split split, const FieldNames& fields, Hdf5Access access)
    : path_(path), split_(split) {
    auto bytes = std::make_unique<Hdf5Bytes>(path);
    Opening opening{.file = open_hdf5(path)};
    bytes->set_superblock(read_superblock(opening.file, path));
    opening.names = checked_list(opening.file, *bytes);
    file_ = std::move(bytes);
    const bool named = !fields.image.empty() && !fields.label.empty();
    const std::vector<std::string> candidates = named ? opening.names : without_keys(opening.names);
    const FoundFields found = find_in_file(opening.file, path, candidates, fields, split);
    split_keys_ = fields.image.empty() && fields_have_splits(candidates);
    image_name_ = found.image;
    label_name_ = found.label;
    open_images(opening, found.image, fields.clips, access);
    if (found.label) {
        open_labels(opening, *found.label);
    }
    open_keys(opening, found.image);
    for (const FieldRequest& request : fields.more) {
        open_field(opening, request, access);
    }
}

Hdf5Dataset::~Hdf5Dataset() = default;

void Hdf5Dataset::open_images(const Opening& opening, const std::string& name, bool clips, Hdf5Access access) {
    Hdf5Id dataset = opening.dataset(name, path_);
    Hdf5Info info = read_hdf5_info(dataset, name, *file_);
    const bool encoded = info.kind == Hdf5Kind::encoded && info.shape.size() == 1;
    if (!encoded && (info.kind != Hdf5Kind::number || info.shape.empty())) {
        throw DataError({.path = path_},
                        {.where = name,
                         .expected = "images: (N, H, W), (N, H, W, C) or (N, C, H, W), clips: (N, T, ...), or "
                                     "variable-length uint8 of (N) that holds encoded images",
                         .got = fmt::format("{} of ({})", info.type_name, fmt::join(info.shape, ", "))});
    }
    size_ = info.shape[0];
    if (size_ < 1 || size_ > std::numeric_limits<int>::max()) {
        throw DataError({.path = path_}, {.where = name,
                                          .expected = fmt::format("1 to {} images", std::numeric_limits<int>::max()),
                                          .got = fmt::format("{}", size_)});
    }
    if (!encoded) {
        with_place({.path = path_, .key = name}, [&] { layout_ = image_array(info.type, image_shape(info), clips); });
        info.record_dims = layout_->frames > 0 ? 2 : 1;
        if (hdf5_shape_bytes(info, image_shape(info), path_) / kMaxGzipRatio > file_->size()) {
            file_->damaged(0, fmt::format("images that {} bytes can hold", file_->size()),
                           fmt::format("images of ({})", fmt::join(image_shape(info), ", ")));
        }
    }
    const bool chunked =
        info.layout == Hdf5Layout::chunked && !info.chunk.empty() && info.chunk[0] > 1 && !info.filters.empty();
    if (!encoded && chunked && hdf5_shape_bytes(info, info.shape, path_) > kHdf5CacheBytes) {
        advice_ = fmt::format(
            "{} has chunks of {} images: for each one that is read in random order, {} are decoded. "
            "`stoker pack` writes a data set without chunks",
            name, info.chunk[0], info.chunk[0]);
    }
    records_ = open_records(*file_, std::move(dataset), info, access);
}

void Hdf5Dataset::open_labels(const Opening& opening, const std::string& name) {
    const Hdf5Id dataset = opening.dataset(name, path_);
    labels_ = read_labels(*file_, dataset, read_hdf5_info(dataset, name, *file_), size_);
    auto texts = read_string_attribute(*file_, dataset, "classes");
    if (!texts) {
        texts = read_string_attribute(*file_, opening.file, "classes");
    }
    const std::int64_t most = texts ? static_cast<std::int64_t>(texts->size()) : kMaxNumberedClasses;
    const auto bad = std::ranges::find_if(labels_, [&](std::int64_t label) { return label < -1 || label >= most; });
    if (bad != labels_.end()) {
        throw DataError({.path = path_, .index = bad - labels_.begin()},
                        {.where = name,
                         .expected = fmt::format("a class below {}, or -1 for none", most),
                         .got = fmt::format("{}", *bad)});
    }
    if (texts) {
        classes_ = std::move(*texts);
    } else {
        classes_ = numbered_classes_of(labels_);
    }
}

void Hdf5Dataset::open_keys(const Opening& opening, const std::string& image_name) {
    // In the images' group, then those of the split, then those of the file.
    const std::string group = image_name.substr(0, image_name.rfind('/') + 1);
    const std::string_view split = split_name(split_);
    for (const std::string& name :
         {group + "keys", fmt::format("{}_keys", split), fmt::format("keys_{}", split), std::string("keys")}) {
        if (std::ranges::find(opening.names, name) == opening.names.end()) {
            continue;
        }
        Hdf5Id dataset = opening.dataset(name, path_);
        const Hdf5Info info = read_hdf5_info(dataset, name, *file_);
        if (info.kind == Hdf5Kind::text && info.shape == Shape{size_}) {
            keys_ = read_strings(*file_, std::move(dataset), info);
            with_place({.path = path_}, [&] { check_unique(keys_, name); });
            return;
        }
    }
}

void Hdf5Dataset::open_field(const Opening& opening, const FieldRequest& request, Hdf5Access access) {
    const std::string& name = present_name(request, opening.names);
    if (std::ranges::find(opening.names, name) == opening.names.end()) {
        throw DataError({.path = path_},
                        {.where = "fields", .expected = "a dataset " + name, .got = some_names(opening.names)});
    }
    Hdf5Id dataset = opening.dataset(name, path_);
    const Hdf5Info info = read_hdf5_info(dataset, name, *file_);
    const bool encoded = info.kind == Hdf5Kind::encoded && info.shape.size() == 1;
    if ((!encoded && info.kind != Hdf5Kind::number) || info.shape.empty() || info.shape[0] != size_) {
        throw DataError(
            {.path = path_},
            {.where = name,
             .expected = fmt::format("numbers of ({}, ...), or variable-length uint8 of ({})", size_, size_),
             .got = fmt::format("{} of ({})", info.type_name, fmt::join(info.shape, ", "))});
    }
    Column column{.encoded = encoded, .record = {}, .records = nullptr};
    fields_.push_back(describe_hdf5_field(*file_, info, request));
    if (!encoded) {
        column.record.type = info.type;
        column.record.shape = image_shape(info);
    }
    column.records = open_records(*file_, std::move(dataset), info, access);
    columns_.push_back(std::move(column));
}

std::vector<Field> Hdf5Dataset::stored_fields() const {
    Opening opening{.file = open_hdf5(path_)};
    opening.names = checked_list(opening.file, *file_);
    std::vector<Field> found;
    for (const std::string& name : without_keys(opening.names)) {
        if (name == image_name_ || name == label_name_) {
            continue;
        }
        try {
            const Hdf5Id dataset = opening.dataset(name, path_);
            const Hdf5Info info = read_hdf5_info(dataset, name, *file_);
            if (info.shape.empty() || info.shape[0] != size_) {
                continue;
            }
            Field field = describe_hdf5_field(*file_, info, {.name = name});
            field.kind = field.kind == FieldKind::image ? guessed_image_kind(name)
                                                        : guessed_kind(name, field.dtype, field.shape);
            found.push_back(std::move(field));
        } catch (const DataError&) {  // text, and objects that cannot be fields
        } catch (const Unsupported&) {
        }
    }
    return found;
}

void Hdf5Dataset::read_fields(std::int64_t index, Sample& sample) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        FieldValue& value = sample.field(i);
        ArrayView record = columns_[i].record;
        record.bytes = columns_[i].records->read(index, value.storage);
        if (!columns_[i].encoded) {
            set_array(fields_[i], record, value);
        } else if (has_pixels(fields_[i].kind)) {
            set_encoded(record.bytes, value);
        } else {
            value.set_elements(record.bytes);
        }
    }
}

void Hdf5Dataset::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    sample.label = labels_.empty() ? -1 : labels_[static_cast<std::size_t>(index)];
    if (!columns_.empty()) {
        read_fields(index, sample);
    }
    if (layout_ && layout_->frames > 0) {
        ImageArray image = *layout_;
        image.frames = 0;
        for (const std::int64_t frame : sample.begin_clip(layout_->frames)) {
            FieldValue& value = sample.frames.emplace_back();
            set_pixels(image, false, records_->read(index * layout_->frames + frame, value.storage), value);
        }
        return;
    }
    const std::span<const std::byte> bytes = records_->read(index, sample.storage);
    if (layout_) {
        set_pixels(*layout_, false, bytes, sample);
        return;
    }
    set_image_file(bytes, sample);
}

std::string Hdf5Dataset::key(std::int64_t index) const {
    check_index(index);
    if (!keys_.empty()) {
        return keys_[static_cast<std::size_t>(index)];
    }
    return split_keys_ ? fmt::format("{}/{}", split_name(split_), index) : std::to_string(index);
}

std::optional<std::int64_t> Hdf5Dataset::label(std::int64_t index) const {
    check_index(index);
    return labels_.empty() ? -1 : labels_[static_cast<std::size_t>(index)];
}

std::int64_t Hdf5Dataset::bytes() const {
    return static_cast<std::int64_t>(file_->size());
}

bool is_hdf5_name(std::string_view name) {
    return name.ends_with(".h5") || name.ends_with(".hdf5");
}

bool hdf5_has_splits(const std::string& path) {
    Hdf5Bytes bytes(path);
    const Hdf5Id file = open_hdf5(path);
    bytes.set_superblock(read_superblock(file, path));
    return fields_have_splits(without_keys(checked_list(file, bytes)));
}

}  // namespace stoker
