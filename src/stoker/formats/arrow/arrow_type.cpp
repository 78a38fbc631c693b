// Formats are those of https://arrow.apache.org/docs/format/CDataInterface.html.
#include "stoker/formats/arrow/arrow_type.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

constexpr int kDeepest = 16;
constexpr std::int64_t kMostChildren = 10'000;
constexpr std::int32_t kMostMetadata = 1 << 26;
constexpr std::size_t kMostSides = 32;
constexpr std::string_view kTensor = "arrow.fixed_shape_tensor";

[[noreturn]] void refuse(std::string_view expected, std::string_view got) {
    throw DataError({}, {.where = "schema", .expected = std::string(expected), .got = std::string(got)});
}

// Numbers, and those that are stored as such.
std::optional<ArrayType> number_of(std::string_view format) {
    constexpr std::string_view kSigned = "csil";  // of 1, 2, 4, 8 bytes
    constexpr std::string_view kUnsigned = "CSIL";
    constexpr std::string_view kFloats = "efg";  // of 2, 4, 8
    if (format.size() == 1) {
        const auto size_at = [&](std::size_t place) { return 1 << place; };
        if (const auto at = kSigned.find(format[0]); at != std::string_view::npos) {
            return ArrayType{.kind = ArrayKind::signed_integer, .item_size = size_at(at)};
        }
        if (const auto at = kUnsigned.find(format[0]); at != std::string_view::npos) {
            return ArrayType{.kind = ArrayKind::unsigned_integer, .item_size = size_at(at)};
        }
        if (const auto at = kFloats.find(format[0]); at != std::string_view::npos) {
            return ArrayType{.kind = ArrayKind::floating, .item_size = size_at(at + 1)};
        }
    }
    if (format == "tdD" || format == "tts" || format == "ttm") {
        return ArrayType{.kind = ArrayKind::signed_integer, .item_size = 4};
    }
    if (format.starts_with("td") || format.starts_with("tt") || format.starts_with("ts") || format.starts_with("tD")) {
        return ArrayType{.kind = ArrayKind::signed_integer, .item_size = 8};
    }
    return std::nullopt;
}

// "d:19,10" has 128 bits; a third number says others.
void read_decimal(std::string_view format, ArrowType& type) {
    std::vector<std::int64_t> numbers;
    for (std::string_view rest = format.substr(2); !rest.empty();) {
        const std::string_view part = rest.substr(0, rest.find(','));
        numbers.push_back(parse_number<std::int64_t>(part).value_or(-1));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    const std::int64_t bits = numbers.size() > 2 ? numbers[2] : 128;
    const bool fits = numbers.size() >= 2 && std::abs(numbers[1]) <= 76 && (bits == 32 || bits == 64 || bits == 128);
    if (fits) {
        type.kind = ArrowKind::decimal;
        type.scale = static_cast<int>(numbers[1]);
        type.element = {.kind = ArrayKind::signed_integer, .item_size = static_cast<int>(bits / 8)};
    }
}

std::int64_t count_after(std::string_view format, std::size_t prefix) {
    const auto count = parse_number<std::int64_t>(format.substr(prefix));
    if (!count || *count < 0) {
        refuse("a length in the format", format);
    }
    return *count;
}

void read_format(std::string_view format, ArrowType& type) {
    if (const auto number = number_of(format)) {
        type.kind = ArrowKind::number;
        type.element = *number;
    } else if (format == "b") {
        type.kind = ArrowKind::boolean;
    } else if (format == "z" || format == "u" || format == "Z" || format == "U") {
        type.kind = ArrowKind::bytes;
        type.text = format == "u" || format == "U";
        type.wide = format == "Z" || format == "U";
    } else if (format == "vz" || format == "vu") {
        type.kind = ArrowKind::byte_view;
        type.text = format == "vu";
    } else if (format.starts_with("w:")) {
        type.kind = ArrowKind::fixed_bytes;
        type.count = count_after(format, 2);
    } else if (format.starts_with("d:")) {
        read_decimal(format, type);
    } else if (format == "+l" || format == "+L") {
        type.kind = ArrowKind::list;
        type.wide = format == "+L";
    } else if (format.starts_with("+w:")) {
        type.kind = ArrowKind::fixed_list;
        type.count = count_after(format, 3);
    } else if (format == "+s") {
        type.kind = ArrowKind::structure;
    }
}

// {"shape": [2, 3], "permutation": [1, 0]}: side i is the stored side permutation[i].
void read_tensor(const std::string& text, ArrowType& type) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const std::string shown = text.substr(0, 200);
    if (!json.is_object() || !json.contains("shape") || !json["shape"].is_array() ||
        json["shape"].size() > kMostSides) {
        refuse(fmt::format("a shape of at most {} sides", kMostSides), shown);
    }
    std::int64_t count = 1;
    for (const auto& side : json["shape"]) {
        if (!side.is_number_integer() || side.get<std::int64_t>() < 0 || side.get<std::int64_t>() > type.count ||
            __builtin_mul_overflow(count, side.get<std::int64_t>(), &count)) {
            refuse("a shape of the tensors", shown);
        }
        type.tensor.push_back(side.get<std::int64_t>());
    }
    if (count != type.count) {
        refuse(fmt::format("a shape of {} values", type.count), shown);
    }
    if (!json.contains("permutation") || json["permutation"].is_null()) {
        return;
    }
    std::vector<std::size_t> sides(type.tensor.size());
    std::iota(sides.begin(), sides.end(), 0);
    if (json["permutation"].size() != sides.size()) {
        refuse("a permutation of the tensors' sides", shown);
    }
    for (const auto& side : json["permutation"]) {
        type.order.push_back(side.is_number_unsigned() ? side.get<std::size_t>() : sides.size());
    }
    if (!std::ranges::is_permutation(type.order, sides)) {
        refuse("a permutation of the tensors' sides", shown);
    }
}

ArrowType read(const ArrowSchema& schema, int depth) {
    if (depth > kDeepest || schema.format == nullptr || schema.n_children < 0 || schema.n_children > kMostChildren) {
        refuse(fmt::format("types nested at most {} deep", kDeepest), "another schema");
    }
    ArrowType type;
    type.name = schema.name == nullptr ? "" : schema.name;
    type.format = schema.format;
    read_format(type.format, type);
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
        type.children.push_back(read(*schema.children[i], depth + 1));
    }
    if (schema.dictionary != nullptr) {
        type.kind =
            type.kind == ArrowKind::number && !type.element.is_float() ? ArrowKind::dictionary : ArrowKind::other;
        type.children = {read(*schema.dictionary, depth + 1)};
    }
    if (type.is_list() && type.children.size() != 1) {
        refuse("a list of one type", type.format);
    }
    type.extension = arrow_metadata(schema, "ARROW:extension:name");
    if (type.extension == kTensor && type.kind == ArrowKind::fixed_list) {
        if (type.children.front().is_list()) {
            type.kind = ArrowKind::other;  // tensors of lists
            return type;
        }
        read_tensor(arrow_metadata(schema, "ARROW:extension:metadata"), type);
    }
    return type;
}

}  // namespace

const ArrowType* ArrowType::child(std::string_view wanted) const {
    if (kind != ArrowKind::structure) {
        return nullptr;
    }
    const auto found = std::ranges::find(children, wanted, &ArrowType::name);
    return found == children.end() ? nullptr : &*found;
}

ArrowType read_arrow_type(const ArrowSchema& schema) {
    return read(schema, 0);
}

bool same_columns(const ArrowType& a, const ArrowType& b) {
    return a.name == b.name && a.format == b.format && a.tensor == b.tensor && a.order == b.order &&
           std::ranges::equal(a.children, b.children, same_columns);
}

std::string arrow_metadata(const ArrowSchema& schema, std::string_view key) {
    const char* at = schema.metadata;
    if (at == nullptr) {
        return "";
    }
    const auto number = [&] {
        std::int32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    };
    const auto text = [&] {
        const std::int32_t size = number();
        if (size < 0 || size > kMostMetadata) {
            refuse("metadata of a schema", fmt::format("a text of {} bytes", size));
        }
        const std::string_view value(at, static_cast<std::size_t>(size));
        at += size;
        return value;
    };
    for (std::int32_t pairs = number(); pairs > 0; --pairs) {
        const std::string_view name = text();
        const std::string_view value = text();
        if (name == key) {
            return std::string(value);
        }
    }
    return "";
}

std::string arrow_type_name(const ArrowType& type) {
    switch (type.kind) {
        case ArrowKind::boolean:
            return "bool";
        case ArrowKind::number:
            return array_type_name(type.element);
        case ArrowKind::decimal:
            return "decimal";
        case ArrowKind::bytes:
        case ArrowKind::byte_view:
            return type.text ? "text" : "binary";
        case ArrowKind::fixed_bytes:
            return fmt::format("binary of {} bytes", type.count);
        case ArrowKind::list:
            return "list of " + arrow_type_name(type.children.front());
        case ArrowKind::fixed_list:
            return fmt::format("list of {} {}", type.count, arrow_type_name(type.children.front()));
        case ArrowKind::dictionary:
            return "dictionary of " + arrow_type_name(type.children.front());
        case ArrowKind::structure: {
            std::vector<std::string_view> names;
            std::ranges::transform(type.children, std::back_inserter(names), &ArrowType::name);
            return fmt::format("struct({})", fmt::join(names, ", "));
        }
        case ArrowKind::other:
            break;
    }
    return fmt::format("Arrow's type {}", type.format);
}

}  // namespace stoker
