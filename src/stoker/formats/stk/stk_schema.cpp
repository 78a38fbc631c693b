// Encodes and decodes the schema. The encoding is binary: names of fields and classes often come from file names, which
// need not be UTF-8 and so do not fit into JSON.
#include "stoker/formats/stk/stk_schema.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/checked_growth.h"

namespace stoker {
namespace {

// Index: the number in the file.
constexpr std::array kDTypes = {DType::uint8,   DType::int32,   DType::int64,  DType::float16, DType::bfloat16,
                                DType::float32, DType::float64, DType::uint16, DType::int16};

struct FieldHead {  // 12 bytes; the name follows, then each class as a length and its bytes
    std::uint8_t kind = 0;
    std::uint8_t dtype = 0;
    std::uint8_t rank = 0;
    std::uint8_t reserved = 0;
    std::uint32_t name_size = 0;
    std::uint32_t classes = 0;
};
static_assert(sizeof(FieldHead) == 12);

template <typename T>
void append(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

[[noreturn]] void bad(std::size_t offset, std::string expected, std::string got) {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "stk schema", .expected = std::move(expected), .got = std::move(got)});
}

class Cursor {
  public:
    explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::size_t at() const { return at_; }
    std::size_t left() const { return bytes_.size() - at_; }

    template <typename T>
    T take() {
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string text(std::size_t size) {
        const auto bytes = take(size);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

  private:
    std::span<const std::byte> take(std::size_t size) {
        if (size > left()) {
            bad(at_, fmt::format("{} bytes", size), fmt::format("{}", left()));
        }
        at_ += size;
        return bytes_.subspan(at_ - size, size);
    }

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

StkField take_field(Cursor& cursor) {
    const std::size_t at = cursor.at();
    const auto head = cursor.take<FieldHead>();
    if (head.kind < static_cast<int>(StkKind::image) || head.kind > static_cast<int>(StkKind::tensor)) {
        bad(at, "a field kind of 1 to 6", fmt::format("{}", head.kind));
    }
    StkField field{.name = {}, .kind = static_cast<StkKind>(head.kind)};
    const bool tensor = field.kind == StkKind::tensor;
    if (head.dtype >= (tensor ? kDTypes.size() : 1) || head.rank > (tensor ? kStkMaxRank : 0) || head.reserved != 0 ||
        (head.classes != 0 && field.kind != StkKind::label)) {
        bad(at, fmt::format("type, rank and classes of a field of kind {}", kind_name(field.kind)),
            fmt::format("type {}, rank {}, {} classes", head.dtype, head.rank, head.classes));
    }
    field.dtype = kDTypes[head.dtype];
    field.rank = head.rank;
    field.name = cursor.text(head.name_size);
    if (head.classes > cursor.left() / sizeof(std::uint32_t)) {
        bad(at, "classes that fit into the schema", fmt::format("{}", head.classes));
    }
    grow_checked(field.classes, head.classes);
    for (std::uint32_t i = 0; i < head.classes; ++i) {
        const auto size = cursor.take<std::uint32_t>();
        field.classes.push_back(cursor.text(size));
    }
    return field;
}

}  // namespace

std::string_view kind_name(StkKind kind) {
    constexpr std::array<std::string_view, 7> kNames = {"?", "image", "label", "int", "float", "bytes", "tensor"};
    const auto number = static_cast<std::size_t>(kind);
    return number < kNames.size() ? kNames[number] : kNames[0];
}

std::string stk_codec_name(StkCodec codec) {
    constexpr std::array<std::string_view, 19> kNames = {"raw",  "jpeg", "png", "dct",      "dct-zstd", "webp",  "bmp",
                                                         "pnm",  "tiff", "npy", "clip",     "video",    "sound", "avif",
                                                         "heic", "jxl",  "gif", "jpeg2000", "dct-ans"};
    const auto number = static_cast<std::size_t>(codec);
    return number < kNames.size() ? std::string(kNames[number]) : fmt::format("codec-{}", number);
}

std::optional<std::size_t> StkSchema::find(std::string_view name) const {
    const auto found = std::ranges::find(fields, name, &StkField::name);
    return found == fields.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - fields.begin()));
}

std::optional<std::size_t> StkSchema::first(StkKind kind) const {
    const auto found = std::ranges::find(fields, kind, &StkField::kind);
    return found == fields.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - fields.begin()));
}

StkSchema stk_image_schema(std::span<const std::string> classes) {
    return {{{.name = "image", .kind = StkKind::image},
             {.name = "label", .kind = StkKind::label, .classes = {classes.begin(), classes.end()}}}};
}

void check_schema(const StkSchema& schema) {
    std::set<std::string_view> names;
    for (const StkField& field : schema.fields) {
        if (field.name.empty() || !names.insert(field.name).second) {
            throw InvalidArgument({.where = "stk schema",
                                   .expected = "a unique name for each field",
                                   .got = fmt::format("\"{}\"", field.name)});
        }
        if (field.rank < 0 || field.rank > kStkMaxRank) {
            throw InvalidArgument({.where = "stk schema: " + field.name,
                                   .expected = fmt::format("a rank of 0 to {}", kStkMaxRank),
                                   .got = fmt::format("{}", field.rank)});
        }
    }
    if (schema.fields.empty() || schema.fields.size() > kStkMaxFields) {
        throw InvalidArgument({.where = "stk schema",
                               .expected = fmt::format("1 to {} fields", kStkMaxFields),
                               .got = fmt::format("{}", schema.fields.size())});
    }
}

std::string encode_schema(const StkSchema& schema) {
    check_schema(schema);
    std::string bytes;
    const auto count = static_cast<std::uint32_t>(schema.fields.size());
    append(bytes, count);
    for (const StkField& field : schema.fields) {
        const bool tensor = field.kind == StkKind::tensor;
        const bool label = field.kind == StkKind::label;
        const auto dtype = std::ranges::find(kDTypes, field.dtype) - kDTypes.begin();
        const FieldHead head{.kind = static_cast<std::uint8_t>(field.kind),
                             .dtype = static_cast<std::uint8_t>(tensor ? dtype : 0),
                             .rank = static_cast<std::uint8_t>(tensor ? field.rank : 0),
                             .name_size = static_cast<std::uint32_t>(field.name.size()),
                             .classes = static_cast<std::uint32_t>(label ? field.classes.size() : 0)};
        append(bytes, head);
        bytes += field.name;
        for (std::uint32_t i = 0; i < head.classes; ++i) {
            append(bytes, static_cast<std::uint32_t>(field.classes[i].size()));
            bytes += field.classes[i];
        }
    }
    return bytes;
}

StkSchema decode_schema(std::span<const std::byte> bytes) {
    Cursor cursor(bytes);
    const auto count = cursor.take<std::uint32_t>();
    if (count == 0 || count > kStkMaxFields) {
        bad(0, fmt::format("1 to {} fields", kStkMaxFields), fmt::format("{}", count));
    }
    StkSchema schema;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t at = cursor.at();
        StkField field = take_field(cursor);
        if (field.name.empty() || schema.find(field.name)) {
            bad(at, "a unique name for each field", fmt::format("\"{}\"", field.name));
        }
        schema.fields.push_back(std::move(field));
    }
    if (cursor.left() != 0) {
        bad(cursor.at(), "the end of the schema", fmt::format("{} more bytes", cursor.left()));
    }
    return schema;
}

}  // namespace stoker
