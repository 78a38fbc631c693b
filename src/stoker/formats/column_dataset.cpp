// Columns are found by name once; a sample's header gives their places.
#include "stoker/formats/column_dataset.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/index_json.h"

namespace stoker {
namespace {

bool is_image_encoding(const SampleColumn& column) {
    return column.kind == ColumnKind::image || column.kind == ColumnKind::raw_image ||
           column.kind == ColumnKind::images;
}

bool may_hold_images(const SampleColumn& column) {
    return is_image_encoding(column) || column.kind == ColumnKind::bytes || column.kind == ColumnKind::array;
}

bool has_label(const SampleColumn& column, std::span<const std::byte> bytes) {
    try {
        column_label(column, bytes);
        return true;
    } catch (const DataError&) {
        return false;
    }
}

bool may_hold_labels(const SampleColumn& column) {
    return column.kind == ColumnKind::array || column.kind == ColumnKind::numbers;
}

}  // namespace

ColumnSource::ColumnSource(std::string_view name, const std::string& place)
    : format(name), folder(shown_folder(place)), index(is_remote(place) ? "" : place) {}

ColumnDataset::ColumnDataset(ColumnSource source, ColumnLayout layout, std::unique_ptr<const SampleShards> shards,
                             const FieldNames& fields)
    : source_(std::move(source)), layout_(std::move(layout)), shards_(std::move(shards)), clips_(fields.clips) {
    if (size() == 0) {
        throw DataError({.path = source_.folder},
                        {.where = std::string(source_.format), .expected = "samples", .got = "none"});
    }
    check_unique(names(), source_.folder);
    find_image(fields);
    find_label(fields);
    const std::vector<std::string> present = names();
    for (const FieldRequest& request : fields.more) {
        field_columns_.push_back(column_named(present_name(request, present)));
        fields_.push_back(describe(request, field_columns_.back()));
    }
    if (!source_.index.empty()) {
        classes_ = read_class_names(source_.index, -1);
    }
}

std::vector<std::string> ColumnDataset::names() const {
    std::vector<std::string> all;
    std::ranges::transform(layout_.columns, std::back_inserter(all), &SampleColumn::name);
    return all;
}

std::size_t ColumnDataset::column_named(const std::string& name) const {
    const auto found = std::ranges::find(layout_.columns, name, &SampleColumn::name);
    if (found == layout_.columns.end()) {
        throw DataError({.path = source_.folder}, {.where = std::string(source_.format),
                                                   .expected = fmt::format("a column named {}", name),
                                                   .got = fmt::format("{}", fmt::join(names(), ", "))});
    }
    return static_cast<std::size_t>(found - layout_.columns.begin());
}

bool ColumnDataset::is_further(const FieldNames& fields, const SampleColumn& column) const {
    return std::ranges::find(fields.more, column.name, &FieldRequest::source) != fields.more.end();
}

// By its encoding; for bytes and arrays, by the first sample that can be read.
ColumnDataset::ImageRank ColumnDataset::image_rank(std::size_t column) const {
    const SampleColumn& stored = layout_.columns[column];
    const bool looked_at = stored.kind == ColumnKind::bytes || stored.kind == ColumnKind::array;
    if (stored.scalar || !looked_at) {
        return is_image_encoding(stored) ? ImageRank::encoding : ImageRank::none;
    }
    for (const std::int64_t index : few_samples()) {
        try {
            const SampleBytes sample = shards_->sample(index);
            const Piece piece = pieces(sample.bytes())[column];
            return image_rank(stored, sample.bytes().subspan(piece.offset, piece.size));
        } catch (const DataError&) {  // a bad sample
        }
    }
    return ImageRank::none;
}

ColumnDataset::ImageRank ColumnDataset::image_rank(const SampleColumn& column, std::span<const std::byte> bytes) const {
    if (column.kind == ColumnKind::bytes) {
        return is_encoded_image(bytes) || is_npy(bytes) ? ImageRank::encoding : ImageRank::none;
    }
    const ArrayView array = column.array(bytes);
    if (is_encoded_image(array.bytes) && array.shape.size() == 1) {
        return ImageRank::encoding;
    }
    try {
        image_array(array.type, array.shape, clips_);
        return ImageRank::array;
    } catch (const DataError&) {  // another shape
        return ImageRank::none;
    }
}

// Empty if there is none.
std::optional<std::string> ColumnDataset::first_image(const FieldNames& fields) const {
    std::vector<std::string> encoded;
    std::vector<std::string> arrays;
    for (std::size_t at = 0; at < layout_.columns.size(); ++at) {
        const SampleColumn& column = layout_.columns[at];
        if (is_further(fields, column) || column.name == fields.label) {
            continue;
        }
        const ImageRank rank = image_rank(at);
        if (rank != ImageRank::none) {
            (rank == ImageRank::encoding ? encoded : arrays).push_back(column.name);
        }
    }
    const std::vector<std::string>& found = encoded.empty() ? arrays : encoded;
    if (found.empty()) {
        return std::nullopt;
    }
    return find_fields(found, {.image = {}, .label = {}, .more = {}, .unlabelled = true}, Split::train, source_.folder)
        .image;
}

void ColumnDataset::find_image(const FieldNames& fields) {
    const std::optional<std::string> name = fields.image.empty() ? first_image(fields) : std::optional(fields.image);
    if (!name && fields.more.empty()) {
        throw DataError({.path = source_.folder},
                        {.where = std::string(source_.format),
                         .expected = "a column of images",
                         .got = fmt::format("{}", fmt::join(names(), ", ")),
                         .hint = "name it with data.fields.image (--image-field), or read columns as further fields"});
    }
    if (!name) {
        return;
    }
    image_ = column_named(*name);
    if (const SampleColumn& column = layout_.columns[*image_]; !may_hold_images(column)) {
        refuse_encoding(column, "a column of images, arrays or bytes");
    }
}

// True if most of some samples have a class index in the column: values of regression and arrays are not labels.
bool ColumnDataset::gives_labels(std::size_t column) const {
    constexpr std::int64_t kEnough = 4;
    std::int64_t labels = 0;
    std::int64_t others = 0;
    for (const std::int64_t index : few_samples()) {
        try {
            const SampleBytes sample = shards_->sample(index);
            const Piece piece = pieces(sample.bytes())[column];
            const bool label = has_label(layout_.columns[column], sample.bytes().subspan(piece.offset, piece.size));
            ++(label ? labels : others);
        } catch (const DataError&) {  // a bad sample
        }
        if (labels + others == kEnough) {
            break;
        }
    }
    return labels > 0 && labels >= others;
}

void ColumnDataset::find_label(const FieldNames& fields) {
    if (fields.unlabelled) {
        return;
    }
    if (!fields.label.empty()) {
        label_ = column_named(fields.label);
        if (const SampleColumn& column = layout_.columns[*label_]; !may_hold_labels(column)) {
            refuse_encoding(column, "a column of numbers, for labels");
        }
        return;
    }
    std::vector<std::string> numbers;
    for (const SampleColumn& column : layout_.columns) {
        if (may_hold_labels(column) && !is_further(fields, column)) {
            numbers.push_back(column.name);
        }
    }
    const std::string image = image_ ? layout_.columns[*image_].name : "";
    for (auto name = stoker::find_label(numbers, Split::train, image); name && !label_;
         name = stoker::find_label(numbers, Split::train, image)) {
        if (const std::size_t column = column_named(*name); gives_labels(column)) {
            label_ = column;
        }
        std::erase(numbers, *name);
    }
}

void ColumnDataset::refuse_encoding(const SampleColumn& column, const char* expected) const {
    throw Unsupported({.where = fmt::format("{}:{}", source_.folder, column.name),
                       .expected = expected,
                       .got = fmt::format("the encoding {}", column.encoding)});
}

// Those of the first parts, if samples are packed. Who stops early decodes fewer parts.
std::vector<std::int64_t> ColumnDataset::few_samples(std::int64_t most) const {
    constexpr std::ptrdiff_t kParts = 4;
    const std::vector<std::int64_t> parts = shards_->packed() ? shards_->shard_sizes() : std::vector{size()};
    const std::int64_t count =
        std::accumulate(parts.begin(), parts.begin() + std::min(std::ssize(parts), kParts), std::int64_t{0});
    return probed_samples(std::min(count, most));
}

// Samples that will all be read.
std::vector<std::int64_t> ColumnDataset::probes(bool fixed) const {
    constexpr std::int64_t kFew = 4;
    std::vector<std::int64_t> samples = fixed ? few_samples(kFew) : few_samples();
    shards_->prefetch(samples);
    return samples;
}

// The field as the readable ones of some samples say; a first side that differs between them has any length.
Field ColumnDataset::describe(const FieldRequest& request, std::size_t column) const {
    const SampleColumn& stored = layout_.columns[column];
    const std::string where = fmt::format("{}:{}", source_.folder, stored.name);
    const auto describe = [&](std::int64_t index) {
        const SampleBytes sample = shards_->sample(index);
        return with_place(shards_->where(index), [&] {
            const Piece piece = pieces(sample.bytes())[column];
            return describe_column(request, stored, sample.bytes().subspan(piece.offset, piece.size), where);
        });
    };
    return common_field(probes(stored.fixed), describe, where);
}

std::vector<Field> ColumnDataset::stored_fields() const {
    std::vector<Field> found;
    for (std::size_t at = 0; at < layout_.columns.size(); ++at) {
        const std::string& name = layout_.columns[at].name;
        if (at == image_ || at == label_) {
            continue;
        }
        try {
            Field field = describe({.name = name}, at);
            field.kind = field.kind == FieldKind::image   ? guessed_image_kind(name)
                         : field.kind == FieldKind::value ? guessed_kind(name, field.dtype, field.shape)
                                                          : field.kind;
            found.push_back(std::move(field));
        } catch (const DataError&) {  // columns that cannot be fields
        } catch (const Unsupported&) {
        }
    }
    return found;
}

std::vector<ColumnDataset::Piece> ColumnDataset::pieces(std::span<const std::byte> sample) const {
    std::vector<Piece> found(layout_.columns.size());
    const auto listed =
        static_cast<std::size_t>(std::ranges::count(layout_.sizes, false, &std::optional<std::uint64_t>::has_value));
    std::size_t header = 0;
    std::size_t offset = listed * sizeof(std::uint32_t);
    for (std::size_t at = 0; at < found.size(); ++at) {
        std::uint64_t size = 0;
        if (layout_.sizes[at]) {
            size = *layout_.sizes[at];
        } else if (header + sizeof(std::uint32_t) <= sample.size()) {
            std::uint32_t stored = 0;
            std::memcpy(&stored, sample.data() + header, sizeof stored);
            header += sizeof stored;
            size = stored;
        }
        if (offset > sample.size() || size > sample.size() - offset) {
            throw DataError({}, {.where = layout_.columns[at].name,
                                 .expected = fmt::format("a column within the sample's {} bytes", sample.size()),
                                 .got = fmt::format("{} bytes at {}", size, offset)});
        }
        found[at] = {.offset = offset, .size = static_cast<std::size_t>(size)};
        offset += found[at].size;
    }
    return found;
}

void ColumnDataset::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    const SampleBytes stored = shards_->sample(index);
    try {
        const std::vector<Piece> places = pieces(stored.bytes());
        const auto bytes_of = [&](std::size_t column, Buffer& storage) {
            return stored.piece(places[column].offset, places[column].size, storage);
        };
        sample.label = -1;
        if (label_) {
            Buffer storage;
            sample.label = column_label(layout_.columns[*label_], bytes_of(*label_, storage));
        }
        if (image_) {
            read_column_image(layout_.columns[*image_], bytes_of(*image_, sample.storage), sample, clips_);
        } else {
            sample.set_raw({}, 0, 0, 0);
        }
        for (std::size_t i = 0; i < fields_.size(); ++i) {
            FieldValue& value = sample.field(i);
            read_column(fields_[i], layout_.columns[field_columns_[i]], bytes_of(field_columns_[i], value.storage),
                        value);
        }
    } catch (const DataError& error) {
        throw error.located(shards_->where(index));
    }
}

std::string ColumnDataset::advice() const {
    return shards_->unpacks_again()
               ? "memory is too small for the unpacked shards of two windows of the shuffle, so shards "
                 "are unpacked more than once: `stoker pack` to x.stk stores samples that are read "
                 "one by one"
               : "";
}

std::string ColumnDataset::key(std::int64_t index) const {
    check_index(index);
    return shards_->key(index);
}

}  // namespace stoker
