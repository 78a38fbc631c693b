// Makes the lines of the schema: one function per type of value. `Field` is a function from a
// (const) Recipe& to a reference to the value's place in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stoker/recipe/op_spec.h"
#include "stoker/recipe/schema.h"
#include "stoker/recipe/values.h"

namespace stoker::schema {

[[noreturn]] inline void refuse(const Place& place, const std::string& expected, const TomlValue& got,
                                std::string hint = {}) {
    throw InvalidArgument({.where = place.text(), .expected = expected, .got = describe(got), .hint = std::move(hint)});
}

template <typename T>
auto field(T Recipe::*member) {
    return [member](auto& recipe) -> auto& {
        return recipe.*member;
    };
}

template <typename Part, typename T>
auto field(Part Recipe::*part, T Part::*member) {
    return [ part, member ](auto& recipe) -> auto& {
        return recipe.*part.*member;
    };
}

template <typename Field>
using ValueOf = std::remove_cvref_t<std::invoke_result_t<Field, Recipe&>>;

// Bounds of an integer, both allowed.
struct Between {
    std::int64_t low;
    std::int64_t high;

    std::string text() const {
        return high == std::numeric_limits<std::int64_t>::max() ? fmt::format("an integer of at least {}", low)
                                                                : fmt::format("an integer from {} to {}", low, high);
    }
    bool holds(std::int64_t value) const { return value >= low && value <= high; }
};

// Bounds of a number; every number is finite.
struct Bounds {
    double low;
    double high = std::numeric_limits<double>::infinity();
    bool low_allowed = true;  // `high` never is

    std::string text() const {
        return fmt::format("a number {} {}{}", low_allowed ? "of at least" : "above", low,
                           std::isinf(high) ? std::string() : fmt::format(" and below {}", high));
    }
    bool holds(double value) const {
        return std::isfinite(value) && (low_allowed ? value >= low : value > low) && value < high;
    }
};

template <typename Field>
SchemaKey integer(std::string name, Field at, Between range, std::string about) {
    const std::string allowed = range.text();
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* given = value.as<std::int64_t>();
                    if (given == nullptr || !range.holds(*given)) {
                        refuse(place, allowed, value);
                    }
                    at(recipe) = static_cast<ValueOf<Field>>(*given);
                },
            .write = [=](const Recipe& recipe) { return fmt::format("{}", at(recipe)); }};
}

// An optional integer; empty is written "auto".
template <typename Field>
SchemaKey integer_or_auto(std::string name, Field at, Between range, std::string about) {
    const std::string allowed = "\"auto\" or " + range.text();
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* given = value.as<std::int64_t>();
                    const auto* text = value.as<std::string>();
                    if (text != nullptr && *text == "auto") {
                        at(recipe) = std::nullopt;
                    } else if (given != nullptr && range.holds(*given)) {
                        at(recipe) = static_cast<typename ValueOf<Field>::value_type>(*given);
                    } else {
                        refuse(place, allowed, value);
                    }
                },
            .write =
                [=](const Recipe& recipe) {
                    const auto& value = at(recipe);
                    return value ? fmt::format("{}", *value) : std::string("\"auto\"");
                }};
}

inline const TomlArray& items_of(const TomlValue& value, std::size_t most, const std::string& allowed,
                                 const Place& place) {
    const auto* array = value.as<TomlArray>();
    if (array == nullptr) {
        refuse(place, allowed, value);
    }
    if (array->size() > most) {
        throw InvalidArgument({place.text(), allowed, fmt::format("{} of them", array->size())});
    }
    return *array;
}

template <typename Field>
SchemaKey integers(std::string name, Field at, Between range, std::size_t most, std::string about) {
    const std::string allowed = fmt::format("an array of at most {}, each {}", most, range.text());
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    std::vector<std::int64_t> given;
                    for (const TomlValue& item : items_of(value, most, allowed, place)) {
                        const auto* entry = item.as<std::int64_t>();
                        if (entry == nullptr || !range.holds(*entry)) {
                            refuse(place, allowed, item);
                        }
                        given.push_back(*entry);
                    }
                    at(recipe) = std::move(given);
                },
            .write = [=](const Recipe& recipe) { return fmt::format("[{}]", fmt::join(at(recipe), ", ")); }};
}

// An array of numbers, or of texts, which no rule but their number binds.
template <typename Field>
SchemaKey numbers(std::string name, Field at, Bounds range, std::size_t most, std::string about) {
    const std::string allowed = fmt::format("an array of at most {}, each {}", most, range.text());
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    std::vector<double> given;
                    for (const TomlValue& item : items_of(value, most, allowed, place)) {
                        const std::optional<double> entry = exact_number(item);
                        if (!entry || !range.holds(*entry)) {
                            refuse(place, allowed, item);
                        }
                        given.push_back(*entry);
                    }
                    at(recipe) = std::move(given);
                },
            .write =
                [=](const Recipe& recipe) {
                    std::vector<std::string> texts;
                    std::ranges::transform(at(recipe), std::back_inserter(texts), toml_number);
                    return fmt::format("[{}]", fmt::join(texts, ", "));
                }};
}

template <typename Field>
SchemaKey texts(std::string name, Field at, std::size_t most, std::string about) {
    const std::string allowed = fmt::format("an array of at most {} texts", most);
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    std::vector<std::string> given;
                    for (const TomlValue& item : items_of(value, most, allowed, place)) {
                        const auto* entry = item.as<std::string>();
                        if (entry == nullptr || entry->empty() || entry->find('\0') != std::string::npos) {
                            refuse(place, allowed, item);
                        }
                        given.push_back(*entry);
                    }
                    at(recipe) = std::move(given);
                },
            .write =
                [=](const Recipe& recipe) {
                    std::vector<std::string> texts;
                    std::ranges::transform(at(recipe), std::back_inserter(texts), toml_string);
                    return fmt::format("[{}]", fmt::join(texts, ", "));
                }};
}

template <typename Field>
SchemaKey number(std::string name, Field at, Bounds range, std::string about) {
    const std::string allowed = range.text();
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const std::optional<double> given = exact_number(value);
                    if (!given || !range.holds(*given)) {
                        refuse(place, allowed, value);
                    }
                    at(recipe) = *given;
                },
            .write = [=](const Recipe& recipe) { return toml_number(at(recipe)); }};
}

template <typename Field>
SchemaKey flag(std::string name, Field at, std::string about) {
    return {.name = std::move(name),
            .allowed = "true or false",
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* given = value.as<bool>();
                    if (given == nullptr) {
                        refuse(place, "true or false", value);
                    }
                    at(recipe) = *given;
                },
            .write = [=](const Recipe& recipe) { return std::string(at(recipe) ? "true" : "false"); }};
}

// Text that `possible` accepts. A zero byte is never possible: no path and no name holds one.
template <typename Field, std::predicate<std::string_view> Possible>
SchemaKey text(std::string name, Field at, std::string allowed, Possible possible, std::string about) {
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .text = true,
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* given = value.as<std::string>();
                    if (given == nullptr || given->find('\0') != std::string::npos || !possible(*given)) {
                        refuse(place, allowed, value);
                    }
                    at(recipe) = *given;
                },
            .write = [=](const Recipe& recipe) { return toml_string(at(recipe)); }};
}

template <typename Field>
SchemaKey one_of(std::string name, Field at, std::vector<std::string> choices, std::string about) {
    const std::string allowed =
        choices.size() == 1
            ? fmt::format("\"{}\"", choices.front())
            : fmt::format("\"{}\" or \"{}\"", fmt::join(std::span(choices).first(choices.size() - 1), "\", \""),
                          choices.back());
    const auto possible = [choices = std::move(choices)](std::string_view given) {
        return std::ranges::find(choices, given) != choices.end();
    };
    return text(std::move(name), std::move(at), allowed, possible, std::move(about));
}

template <typename Field>
SchemaKey ops(std::string name, Field at, std::string about) {
    return {.name = std::move(name),
            .allowed = "an array of tables such as {op = \"resize\", size = 256}",
            .about = std::move(about),
            .read = [=](Recipe& recipe, const TomlValue& value,
                        const Place& place) { at(recipe) = read_ops(value, place); },
            .write = [=](const Recipe& recipe) { return ops_to_toml(at(recipe)); }};
}

}  // namespace stoker::schema
