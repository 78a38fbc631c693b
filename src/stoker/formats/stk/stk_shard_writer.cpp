// Each payload's hash goes into the index, the hash of the index into the footer, and the footer's hash covers both.
#include "stoker/formats/stk/stk_shard_writer.h"

#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
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
    // No overflow: 31 + 31 + 3 bits at most.
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

}  // namespace

StkShardWriter::StkShardWriter(const std::filesystem::path& directory, StkSchema schema, std::uint32_t shard,
                               std::uint64_t first)
    : schema_(std::move(schema)),
      shard_(shard),
      first_(first),
      target_(directory / stk_shard_name(shard)),
      file_(fmt::format("{}.tmp-{}", target_.string(), ::getpid())),
      columns_(schema_.fields.size()) {
    const StkHeader header{.shard = shard, .first = first};
    file_.append(std::as_bytes(std::span(&header, 1)));
}

StkShardWriter::~StkShardWriter() {
    if (!finished_) {
        std::error_code ignored;
        std::filesystem::remove(file_.path(), ignored);
    }
}

// Writes zeros up to a multiple of kStkAlignment.
void StkShardWriter::pad() {
    constexpr std::byte kZeros[kStkAlignment] = {};
    file_.append(std::span(kZeros).first(static_cast<std::size_t>(stk_align(file_.size()) - file_.size())));
}

StkPlace StkShardWriter::write_payload(std::span<const std::byte> bytes) {
    file_.take_hash();  // starts the hash at the payload, after the padding
    StkPlace place{.offset = file_.size(), .size = bytes.size()};
    file_.append(bytes);
    place.hash = file_.take_hash();
    pad();
    return place;
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
            put(column, StkImageEntry{.place = write_payload(image->bytes),
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
            put(column, write_payload(*bytes));
        } else {
            const auto& tensor = std::get<TensorView>(values[i]);
            put(column, write_payload({tensor.data, tensor.bytes()}));
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
    StkFooter footer{.samples = samples(), .index_offset = file_.size(), .first = first_, .shard = shard_};
    const std::vector<std::byte> index = join_index();
    footer.index_size = index.size();
    footer.index_hash = hash_bytes(index);
    file_.append(index);

    const std::string schema = encode_schema(schema_);
    footer.schema_offset = file_.size();
    footer.schema_size = schema.size();
    footer.schema_hash = hash_text(schema);
    file_.append(as_bytes(schema));
    pad();
    footer.file_size = file_.size() + sizeof footer;
    const auto footer_bytes = std::as_bytes(std::span(&footer, 1));
    footer.hash = hash_bytes(footer_bytes.first(kStkFooterHashed));
    file_.append(footer_bytes);
    file_.sync();
    std::error_code error;
    std::filesystem::rename(file_.path(), target_, error);
    if (error) {
        throw errno_error(target_.string(), "a file that can be renamed", error.value());
    }
    finished_ = true;
    sync_directory(target_.parent_path().empty() ? "." : target_.parent_path());
    return {.samples = footer.samples, .bytes = footer.file_size, .hash = footer.hash};
}

}  // namespace stoker
