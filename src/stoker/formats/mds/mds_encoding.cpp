// Arrays without a type or a shape in their encoding have both in each value.
#include "stoker/formats/mds/mds_encoding.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"
#include "stoker/formats/json_numbers.h"

namespace stoker {
namespace {

constexpr std::size_t kMostJson = std::size_t{16} << 20;
constexpr std::int64_t kMostSide = std::int64_t{1} << 40;

struct NamedType {
    std::string_view name;
    std::uint8_t code;  // in a value
    ArrayType type;
};

constexpr auto kUnsigned = ArrayKind::unsigned_integer;
constexpr auto kSigned = ArrayKind::signed_integer;
constexpr auto kFloat = ArrayKind::floating;

constexpr NamedType kTypes[] = {
    {"uint8", 8, {kUnsigned, 1}}, {"int8", 9, {kSigned, 1}},    {"uint16", 16, {kUnsigned, 2}},
    {"int16", 17, {kSigned, 2}},  {"float16", 18, {kFloat, 2}}, {"uint32", 32, {kUnsigned, 4}},
    {"int32", 33, {kSigned, 4}},  {"float32", 34, {kFloat, 4}}, {"uint64", 64, {kUnsigned, 8}},
    {"int64", 65, {kSigned, 8}},  {"float64", 66, {kFloat, 8}},
};

struct NamedKind {
    std::string_view name;
    ColumnKind kind;
    std::size_t list_begin = 0;
    bool raw_list = false;
};

// Lists begin with a word that is kept for later versions, but that of JPEGs does not.
constexpr NamedKind kKinds[] = {
    {"jpeg", ColumnKind::image},
    {"png", ColumnKind::image},
    {"pil", ColumnKind::raw_image},
    {"jpeg_array", ColumnKind::images},
    {"jpegarray", ColumnKind::images},
    {"list[jpeg]", ColumnKind::images, 4},
    {"list[png]", ColumnKind::images, 4},
    {"list[pil]", ColumnKind::images, 4, true},
    {"str", ColumnKind::text},
    {"str_int", ColumnKind::numbers},
    {"str_float", ColumnKind::numbers},
    {"str_decimal", ColumnKind::numbers},
    {"json", ColumnKind::numbers},
    {"bytes", ColumnKind::bytes},
};

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "mds", .expected = std::move(expected), .got = std::move(got)});
}

const NamedType* type_named(std::string_view name) {
    const auto* const found = std::ranges::find(kTypes, name, &NamedType::name);
    return found == std::end(kTypes) ? nullptr : found;
}

// The parts of an ndarray that its encoding gives.
struct ArrayForm {
    std::optional<ArrayType> type;
    std::optional<Shape> shape;
};

ArrayType type_coded(std::span<const std::byte> bytes) {
    const auto* const found =
        std::ranges::find(kTypes, bytes.empty() ? 0 : std::to_integer<std::uint8_t>(bytes[0]), &NamedType::code);
    if (found == std::end(kTypes)) {
        bad("the code of an array's type", bytes.empty() ? "no bytes" : fmt::format("{}", int(bytes[0])));
    }
    return found->type;
}

// A byte with the number of sides and the width of each, the sides, then the elements.
Shape take_shape(std::span<const std::byte>& bytes) {
    if (bytes.empty()) {
        bad("an array's shape", "no bytes");
    }
    const auto head = std::to_integer<unsigned>(bytes[0]);
    const std::size_t sides = head >> 2U;
    const std::size_t width = std::size_t{1} << (head & 3U);
    if (bytes.size() - 1 < sides * width) {
        bad(fmt::format("{} sides of an array", sides), fmt::format("{} bytes", bytes.size() - 1));
    }
    Shape shape;
    for (std::size_t i = 0; i < sides; ++i) {
        std::uint64_t side = 0;
        std::memcpy(&side, bytes.data() + 1 + i * width, width);
        if (side > static_cast<std::uint64_t>(kMostSide)) {
            bad(fmt::format("sides up to {}", kMostSide), fmt::format("{}", side));
        }
        shape.push_back(static_cast<std::int64_t>(side));
    }
    bytes = bytes.subspan(1 + sides * width);
    return shape;
}

ArrayView read_array(const ArrayForm& form, std::span<const std::byte> bytes) {
    const ArrayType type = form.type ? *form.type : type_coded(bytes);
    bytes = bytes.subspan(form.type ? 0 : 1);
    Shape shape = form.shape ? *form.shape : take_shape(bytes);
    return whole_array(type, std::move(shape), bytes);
}

// "float32:2,3"
ArrayForm parse_form(std::string_view text, const std::string& encoding) {
    const auto refuse = [&] { bad("ndarray, ndarray:TYPE or ndarray:TYPE:SIDE,SIDE", fmt::format("{:?}", encoding)); };
    ArrayForm form;
    const std::size_t colon = std::min(text.find(':'), text.size());
    const NamedType* type = type_named(text.substr(0, colon));
    if (type == nullptr) {
        refuse();
    }
    form.type = type->type;
    if (colon == text.size()) {
        return form;
    }
    form.shape.emplace();
    for (std::string_view rest = text.substr(colon + 1); !rest.empty();) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        const auto side = parse_number<std::int64_t>(rest.substr(0, end));
        if (!side || *side < 1 || *side > kMostSide) {
            refuse();
        }
        form.shape->push_back(*side);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return form;
}

FieldNumbers read_json(std::span<const std::byte> bytes) {
    if (bytes.size() > kMostJson) {
        bad(fmt::format("JSON of at most {} bytes", kMostJson), fmt::format("{}", bytes.size()));
    }
    return json_numbers(parse_json<nlohmann::json>(as_text(bytes)));
}

void make_array(SampleColumn& column, ArrayForm form) {
    column.kind = ColumnKind::array;
    column.fixed = form.type && form.shape;
    column.scalar = form.shape && form.shape->empty();
    column.array = [form = std::move(form)](std::span<const std::byte> bytes) { return read_array(form, bytes); };
}

}  // namespace

SampleColumn mds_column(std::string name, const std::string& encoding) {
    constexpr std::string_view kArray = "ndarray";
    SampleColumn column{.name = std::move(name), .encoding = encoding, .kind = ColumnKind::refused};
    const std::string_view whole(encoding);
    if (const auto* const found = std::ranges::find(kKinds, whole, &NamedKind::name); found != std::end(kKinds)) {
        column.kind = found->kind;
        column.list_begin = found->list_begin;
        column.raw_list = found->raw_list;
        if (column.kind == ColumnKind::numbers) {
            column.numbers = whole == "json" ? read_json : [](std::span<const std::byte> bytes) {
                return parse_field_number(as_text(bytes));
            };
        }
    } else if (const NamedType* type = type_named(whole == "int" ? "int64" : whole)) {
        make_array(column, {.type = type->type, .shape = Shape{}});
    } else if (whole == kArray || whole == "ndarray:") {
        make_array(column, {});
    } else if (whole.starts_with("ndarray:")) {
        make_array(column, parse_form(whole.substr(kArray.size() + 1), encoding));
    }
    return column;
}

}  // namespace stoker
