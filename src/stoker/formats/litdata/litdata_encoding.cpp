// Types are written as positions in two lists, one of torch and one of NumPy.
#include "stoker/formats/litdata/litdata_encoding.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

using OptionalType = std::optional<ArrayType>;

constexpr std::size_t kWord = sizeof(std::uint32_t);
constexpr std::uint32_t kMostSides = 64;

constexpr ArrayType kBoolean{ArrayKind::boolean, 1};
constexpr ArrayType kInt64{ArrayKind::signed_integer, 8};
constexpr ArrayType kFloat64{ArrayKind::floating, 8};

constexpr OptionalType integer(int size) {
    return ArrayType{ArrayKind::signed_integer, size};
}

constexpr OptionalType natural(int size) {
    return ArrayType{ArrayKind::unsigned_integer, size};
}

constexpr OptionalType real(int size) {
    return ArrayType{ArrayKind::floating, size};
}

// Types with two names are listed twice; complex ones are not read.
constexpr OptionalType kTorchTypes[] = {
    real(4),
    real(4),
    real(8),
    real(8),
    std::nullopt,
    std::nullopt,
    std::nullopt,
    std::nullopt,
    real(2),
    real(2),
    ArrayType{ArrayKind::bfloat16, 2},
    natural(1),
    integer(1),
    integer(2),
    integer(2),
    integer(4),
    integer(4),
    integer(8),
    integer(8),
    kBoolean,
    natural(2),
};

constexpr OptionalType kNumpyTypes[] = {
    integer(1), integer(2), integer(4), integer(8), natural(1),   natural(2),   natural(4),
    natural(8), real(2),    real(4),    real(8),    std::nullopt, std::nullopt, kBoolean,
};

OptionalType type_at(std::span<const OptionalType> types, std::uint64_t at) {
    return at < types.size() ? types[at] : std::nullopt;
}

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "litdata", .expected = std::move(expected), .got = std::move(got)});
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
    if (bytes.size() < kWord || at > bytes.size() - kWord) {
        bad(fmt::format("an array's header of at least {} bytes", at + kWord), fmt::format("{}", bytes.size()));
    }
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, kWord);
    return word;
}

std::uint32_t swapped(std::uint32_t word) {
    return __builtin_bswap32(word);
}

// The type, the number of sides and the sides, then the elements. Releases since 0.2.40 or so write the header of
// tensors big-endian, and that of NumPy arrays little-endian as ever. A big-endian number of sides below 64, or a type
// of the list, is a large number if read the other way.
ArrayView read_array(std::span<const OptionalType> types, std::span<const std::byte> bytes) {
    std::uint32_t code = word_at(bytes, 0);
    std::uint32_t sides = word_at(bytes, kWord);
    const bool swap = code >= types.size() || sides > kMostSides;
    if (swap) {
        code = swapped(code);
        sides = swapped(sides);
    }
    const OptionalType type = type_at(types, code);
    if (!type || sides > kMostSides) {
        bad("an array of integers, booleans or floats", fmt::format("the type {} and {} sides", code, sides));
    }
    Shape shape;
    for (std::uint32_t i = 0; i < sides; ++i) {
        const std::uint32_t side = word_at(bytes, (2 + i) * kWord);
        shape.push_back(swap ? swapped(side) : side);
    }
    return whole_array(*type, std::move(shape), bytes.subspan((2 + sides) * kWord));
}

ArrayView read_flat(const ArrayType& type, std::span<const std::byte> bytes) {
    const auto item = static_cast<std::size_t>(type.item_size);
    return whole_array(type, {static_cast<std::int64_t>(bytes.size() / item)}, bytes);
}

void make_scalar(SampleColumn& column, const ArrayType& type) {
    column.kind = ColumnKind::array;
    column.fixed = true;
    column.scalar = true;
    column.array = [type](std::span<const std::byte> bytes) { return whole_array(type, {}, bytes); };
}

struct NamedKind {
    std::string_view name;
    ColumnKind kind;
};

// Recordings are read as images are.
constexpr NamedKind kKinds[] = {
    {"jpeg", ColumnKind::image},    {"image", ColumnKind::image},       {"tifffile", ColumnKind::image},
    {"tiff", ColumnKind::image},    {"video", ColumnKind::image},       {"audio", ColumnKind::image},
    {"pil", ColumnKind::raw_image}, {"jpeg_array", ColumnKind::images}, {"str", ColumnKind::text},
    {"text", ColumnKind::text},     {"bytes", ColumnKind::bytes},       {"file", ColumnKind::bytes},
    {"tif", ColumnKind::bytes},     {"nifti", ColumnKind::bytes},       {"mesh", ColumnKind::bytes},
    {"pdf", ColumnKind::bytes},     {"json", ColumnKind::numbers},
};

}  // namespace

std::optional<ArrayType> litdata_flat_type(std::string_view serializer) {
    constexpr std::string_view kTensor = "no_header_tensor:";
    constexpr std::string_view kNumpy = "no_header_numpy:";
    const bool tensor = serializer.starts_with(kTensor);
    if (!tensor && !serializer.starts_with(kNumpy)) {
        return std::nullopt;
    }
    const auto at = parse_number<std::uint32_t>(serializer.substr(tensor ? kTensor.size() : kNumpy.size()));
    return at ? type_at(tensor ? std::span<const OptionalType>(kTorchTypes) : kNumpyTypes, *at) : std::nullopt;
}

SampleColumn litdata_column(std::string name, const std::string& serializer) {
    SampleColumn column{.name = std::move(name), .encoding = serializer, .kind = ColumnKind::refused};
    const std::string_view kind = std::string_view(serializer).substr(0, serializer.find(':'));  // without an ending
    if (const auto* const found = std::ranges::find(kKinds, kind, &NamedKind::name); found != std::end(kKinds)) {
        column.kind = found->kind;
        if (column.kind == ColumnKind::numbers) {
            column.numbers = litdata_numbers;
        }
    } else if (serializer == "int" || serializer == "float") {
        make_scalar(column, serializer == "int" ? kInt64 : kFloat64);
    } else if (serializer == "bool") {
        make_scalar(column, kBoolean);
    } else if (serializer == "numpy" || serializer == "tensor") {
        column.kind = ColumnKind::array;
        const std::span<const OptionalType> types =
            serializer == "numpy" ? std::span<const OptionalType>(kNumpyTypes) : kTorchTypes;
        column.array = [types](std::span<const std::byte> bytes) { return read_array(types, bytes); };
    } else if (const OptionalType type = litdata_flat_type(serializer)) {
        column.kind = ColumnKind::array;
        column.array = [type = *type](std::span<const std::byte> bytes) { return read_flat(type, bytes); };
    }
    return column;
}

}  // namespace stoker
