// The binary form begins with a byte that says what follows; JSON as text begins with a bracket or a brace.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/json_numbers.h"
#include "stoker/formats/litdata/litdata_encoding.h"

namespace stoker {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kListBegin = 1 + sizeof(std::uint32_t);  // the tag and the count, or the size of JSON

enum class Tag : std::uint8_t {
    json = 0,
    texts = 1,
    integers = 2,
    reals = 3,
    booleans = 4,
    integer = 8,
    real = 9,
    boolean = 10
};

[[noreturn]] void bad(std::span<const std::byte> bytes) {
    throw DataError({},
                    {.where = "litdata", .expected = "a number or a list of numbers", .got = describe_bytes(bytes)});
}

template <typename Number>
void add(FieldNumbers& numbers, std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
        Number number;
        std::memcpy(&number, bytes.data() + at, sizeof number);
        if constexpr (std::is_same_v<Number, std::uint8_t>) {
            numbers.add(std::int64_t{number != 0});
        } else {
            numbers.add(number);
        }
    }
}

template <typename Number>
FieldNumbers one(std::span<const std::byte> bytes) {
    FieldNumbers numbers;
    if (bytes.size() != 1 + sizeof(Number)) {
        bad(bytes);
    }
    add<Number>(numbers, bytes.subspan(1));
    return numbers;
}

// A count, which is uint32, and the numbers.
template <typename Number>
FieldNumbers list(std::span<const std::byte> bytes) {
    std::uint32_t count = 0;
    if (bytes.size() < kListBegin) {
        bad(bytes);
    }
    std::memcpy(&count, bytes.data() + 1, sizeof count);
    if (bytes.size() - kListBegin != count * sizeof(Number)) {
        bad(bytes);
    }
    FieldNumbers numbers;
    numbers.shape = {count};
    add<Number>(numbers, bytes.subspan(kListBegin));
    return numbers;
}

}  // namespace

FieldNumbers litdata_numbers(std::span<const std::byte> bytes) {
    if (bytes.empty() || bytes.size() > kMostBytes) {
        bad(bytes);
    }
    const std::string_view text = as_text(bytes);
    if (text.front() == '[' || text.front() == '{') {
        return json_numbers(parse_json<nlohmann::json>(text));
    }
    switch (static_cast<Tag>(bytes.front())) {
        case Tag::json:
            return json_numbers(parse_json<nlohmann::json>(text.substr(std::min(kListBegin, text.size()))));
        case Tag::texts:  // also an empty list of numbers
            return list<std::uint8_t>(bytes.size() == kListBegin ? bytes : std::span<const std::byte>());
        case Tag::integers:
            return list<std::int64_t>(bytes);
        case Tag::reals:
            return list<double>(bytes);
        case Tag::booleans:
            return list<std::uint8_t>(bytes);
        case Tag::integer:
            return one<std::int64_t>(bytes);
        case Tag::real:
            return one<double>(bytes);
        case Tag::boolean:
            return one<std::uint8_t>(bytes);
    }
    bad(bytes);
}

}  // namespace stoker
