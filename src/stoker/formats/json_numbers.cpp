// Integers that int64 does not hold are floats.
#include "stoker/formats/json_numbers.h"

#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "json", .expected = std::move(expected), .got = std::move(got)});
}

void add_number(FieldNumbers& numbers, const nlohmann::json& value) {
    if (value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
        numbers.add(value.get<std::int64_t>());
    } else if (value.is_boolean()) {
        numbers.add(std::int64_t{value.get<bool>()});
    } else if (value.is_number()) {
        numbers.add(value.get<double>());
    } else {
        bad("numbers", value.is_null() ? "null, NaN or an infinity" : value.type_name());
    }
}

}  // namespace

FieldNumbers json_numbers(const nlohmann::json& value) {
    FieldNumbers numbers;
    if (!value.is_array()) {
        add_number(numbers, value);
        return numbers;
    }
    const auto sides = [](const nlohmann::json& list) { return static_cast<std::int64_t>(list.size()); };
    numbers.shape = {sides(value)};
    const bool rows = !value.empty() && value.front().is_array();
    if (rows) {
        numbers.shape.push_back(sides(value.front()));
    }
    for (const nlohmann::json& entry : value) {
        if (!rows) {
            add_number(numbers, entry);
            continue;
        }
        if (!entry.is_array() || sides(entry) != numbers.shape[1]) {
            bad(fmt::format("lists of {} numbers", numbers.shape[1]), "another entry");
        }
        for (const nlohmann::json& number : entry) {
            add_number(numbers, number);
        }
    }
    return numbers;
}

}  // namespace stoker
