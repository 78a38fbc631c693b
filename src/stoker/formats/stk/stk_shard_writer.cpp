// Every payload is hashed as it is written; the index's hash covers these, the footer's hash covers
// the index's.
#include "stoker/formats/stk/stk_shard_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

[[noreturn]] void wrong(const StkField& field, std::string expected, std::string got) {
    throw InvalidArgument({.where = "stk field " + field.name, .expected = std::move(expected), .got = std::move(got)});
}

void check_image(const StkField& field, const StkImage& image) {
    const bool raw = image.codec == StkCodec::raw;
    const bool shaped = image.height > 0 && image.width > 0 && image.channels > 0 && image.channels <= 4;
    const bool shapeless = image.height == 0 && image.width == 0 && image.channels == 0;
    if (raw ? !shaped : !shapeless) {
        wrong(field, raw ? "the shape of raw pixels with 1 to 4 channels" : "no shape for an encoded image",
              fmt::format("({}, {}, {})", image.height, image.width, image.channels));
    }
    // Three ints of 31 bits and 3 bits: the product fits.
    const std::uint64_t pixels = static_cast<std::uint64_t>(image.height) * static_cast<std::uint64_t>(image.width);
    if (raw && pixels * static_cast<std::uint64_t>(image.channels) != image.bytes.size()) {
        wrong(field, fmt::format("{} x {} x {} bytes", image.height, image.width, image.channels),
              fmt::format("{}", image.bytes.size()));
    }
}

void check_tensor(const StkField& field, const TensorView& tensor) {
    if (tensor.dtype != field.dtype || tensor.shape.size() != static_cast<std::size_t>(field.rank)) {
        wrong(field, fmt::format("{} of rank {}", dtype_name(field.dtype), field.rank),
              fmt::format("{} of rank {}", dtype_name(tensor.dtype), tensor.shape.size()));
    }
    for (const std::int64_t side : tensor.shape) {
        if (side < 0 || side > kStkMaxSide) {
            wrong(field, fmt::format("sides of 0 to {}", kStkMaxSide), fmt::format("{}", side));
        }
    }
}

void check_label(const StkField& field, std::int64_t label) {
    if (label < -1 || (!field.classes.empty() && label >= static_cast<std::int64_t>(field.classes.size()))) {
        wrong(field, fmt::format("a label of -1 to {}", static_cast<std::int64_t>(field.classes.size()) - 1),
              fmt::format("{}", label));
    }
}

void check_value(const StkField& field, const StkValue& value) {
    const auto expect = [&](bool fits, const char* expected) {
        if (!fits) {
            wrong(field, expected, "another value");
        }
    };
    switch (field.kind) {
        case StkKind::image:
            expect(std::holds_alternative<StkImage>(value), "an image");
            return check_image(field, std::get<StkImage>(value));
        case StkKind::label:
            expect(std::holds_alternative<std::int64_t>(value), "a class index");
            return check_label(field, std::get<std::int64_t>(value));
        case StkKind::integer:
            return expect(std::holds_alternative<std::int64_t>(value), "an int64");
        case StkKind::number:
            return expect(std::holds_alternative<double>(value), "a double");
        case StkKind::bytes:
            return expect(std::holds_alternative<StkBytes>(value), "bytes");
        case StkKind::tensor:
            expect(std::holds_alternative<TensorView>(value), "a tensor");
            return check_tensor(field, std::get<TensorView>(value));
    }
}

template <typename T>
void put(std::vector<std::byte>& column, const T& entry) {
    const auto bytes = std::as_bytes(std::span(&entry, 1));
    column.insert(column.end(), bytes.begin(), bytes.end());
}

StkPlace write_payload(StkOutput& output, std::span<const std::byte> bytes) {
    const StkPlace place{.offset = output.size(), .size = bytes.size(), .hash = hash_bytes(bytes)};
    output.append(bytes);
    output.pad();
    return place;
}

}  // namespace

StkShardWriter::StkShardWriter(const std::filesystem::path& directory, StkSchema schema, std::uint32_t shard,
                               std::uint64_t first)
    : schema_(std::move(schema)),
      shard_(shard),
      first_(first),
      output_(directory / stk_shard_name(shard)),
      columns_(schema_.fields.size()) {
    check_schema(schema_);
    const StkHeader header{.shard = shard, .first = first};
    output_.append(std::as_bytes(std::span(&header, 1)));
}

void StkShardWriter::add(std::string_view key, std::span<const StkValue> values) {
    if (values.size() != schema_.fields.size() || key.size() > kStkMaxKey) {
        throw InvalidArgument(
            {.where = "stk sample",
             .expected = fmt::format("{} values and a key of at most {} bytes", schema_.fields.size(), kStkMaxKey),
             .got = fmt::format("{} values, {} bytes", values.size(), key.size())});
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        check_value(schema_.fields[i], values[i]);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::vector<std::byte>& column = columns_[i];
        if (const auto* image = std::get_if<StkImage>(&values[i])) {
            put(column, StkImageEntry{.place = write_payload(output_, image->bytes),
                                      .codec = static_cast<std::uint16_t>(image->codec),
                                      .flags = image->original_file ? kStkOriginalFile : std::uint16_t{0},
                                      .height = static_cast<std::uint32_t>(image->height),
                                      .width = static_cast<std::uint32_t>(image->width),
                                      .channels = static_cast<std::uint32_t>(image->channels)});
        } else if (const auto* integer = std::get_if<std::int64_t>(&values[i])) {
            put(column, *integer);
        } else if (const auto* number = std::get_if<double>(&values[i])) {
            put(column, *number);
        } else if (const auto* bytes = std::get_if<StkBytes>(&values[i])) {
            put(column, write_payload(output_, *bytes));
        } else {
            const auto& tensor = std::get<TensorView>(values[i]);
            put(column, write_payload(output_, {tensor.data, tensor.bytes()}));
            for (const std::int64_t side : tensor.shape) {
                put(column, side);
            }
        }
    }
    key_text_ += key;
    key_ends_.push_back(key_text_.size());
}

std::vector<std::byte> StkShardWriter::join_index() const {
    const StkLayout layout = stk_layout(schema_, samples());
    std::vector<std::byte> index(static_cast<std::size_t>(layout.key_text + key_text_.size()));
    const auto place = [&](std::uint64_t at, std::span<const std::byte> bytes) {
        std::ranges::copy(bytes, index.begin() + static_cast<std::ptrdiff_t>(at));
    };
    place(layout.key_ends, std::as_bytes(std::span(key_ends_)));
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        place(layout.fields[i], columns_[i]);
    }
    place(layout.key_text, as_bytes(key_text_));
    return index;
}

StkShardInfo StkShardWriter::finish() {
    if (samples() == 0) {
        throw InvalidArgument({.where = "stk shard", .expected = "at least one sample", .got = "none"});
    }
    StkFooter footer{.samples = samples(), .index_offset = output_.size(), .first = first_, .shard = shard_};
    const std::vector<std::byte> index = join_index();
    footer.index_size = index.size();
    footer.index_hash = hash_bytes(index);
    output_.append(index);

    const std::string schema = encode_schema(schema_);
    footer.schema_offset = output_.size();
    footer.schema_size = schema.size();
    footer.schema_hash = hash_text(schema);
    output_.append(as_bytes(schema));
    output_.pad();
    footer.file_size = output_.size() + sizeof footer;
    const auto footer_bytes = std::as_bytes(std::span(&footer, 1));
    footer.hash = hash_bytes(footer_bytes.first(kStkFooterHashed));
    output_.append(footer_bytes);
    output_.commit();
    return {.samples = footer.samples, .bytes = footer.file_size, .hash = footer.hash};
}

}  // namespace stoker
