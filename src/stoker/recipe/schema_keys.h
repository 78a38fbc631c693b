// Makes entries of the schema: one function per type of value. `Field` is a function from a (const) Recipe& to a
// reference to the member that holds the value.
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

#include "stoker/base/url_secrets.h"
#include "stoker/recipe/op_spec.h"
#include "stoker/recipe/schema.h"
#include "stoker/recipe/values.h"

namespace stoker::schema {

inline constexpr std::int64_t kMost = std::int64_t{1} << 30;
inline constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

inline constexpr auto kAnyText = [](std::string_view) { return true; };

[[noreturn]] inline void refuse(const Place& place, const std::string& expected, const TomlValue& got) {
    throw InvalidArgument({.where = place.text(), .expected = expected, .got = describe(got)});
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

// Bounds of an integer, both inclusive.
struct Between {
    std::int64_t low;
    std::int64_t high;

    std::string text() const {
        return high == std::numeric_limits<std::int64_t>::max() ? fmt::format("an integer of at least {}", low)
                                                                : fmt::format("an integer from {} to {}", low, high);
    }
    std::optional<std::int64_t> read(const TomlValue& value) const {
        const auto* given = value.as<std::int64_t>();
        return given != nullptr && *given >= low && *given <= high ? std::optional(*given) : std::nullopt;
    }
};

// Bounds of a finite number; `high` is exclusive.
struct Bounds {
    double low;
    double high = std::numeric_limits<double>::infinity();
    bool low_allowed = true;

    std::string text() const {
        return fmt::format("a number {} {}{}", low_allowed ? "of at least" : "above", low,
                           std::isinf(high) ? std::string() : fmt::format(" and below {}", high));
    }
    std::optional<double> read(const TomlValue& value) const {
        const std::optional<double> given = exact_number(value);
        const bool inside = given && (low_allowed ? *given >= low : *given > low) && *given < high;
        return inside ? given : std::nullopt;
    }
};

// The secrets of URLs stay out of the files and messages that have a recipe's text.
inline std::string stored_text(std::string_view value) {
    return toml_string(stored_url(value));
}

// A zero byte is refused: no path and no name contains one.
inline std::optional<std::string> read_text_value(const TomlValue& value) {
    const auto* given = value.as<std::string>();
    return given != nullptr && given->find('\0') == std::string::npos ? std::optional(*given) : std::nullopt;
}

// A key of one value. read(TomlValue) returns an optional, empty for a value that is refused; write(value) returns
// TOML.
template <typename Field, typename Read, typename Write>
SchemaKey value_key(std::string name, const Field& at, const std::string& allowed, std::string about, const Read& read,
                    const Write& write) {
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    auto given = read(value);
                    if (!given) {
                        refuse(place, allowed, value);
                    }
                    at(recipe) = static_cast<ValueOf<Field>>(*std::move(given));
                },
            .write = [=](const Recipe& recipe) { return write(at(recipe)); }};
}

// A key of at most `most` values in an array; `read` and `write` as for value_key, for one element.
template <typename Field, typename Read, typename Write>
SchemaKey array_key(std::string name, const Field& at, std::size_t most, const std::string& allowed, std::string about,
                    const Read& read, const Write& write) {
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* array = value.as<TomlArray>();
                    if (array == nullptr) {
                        refuse(place, allowed, value);
                    }
                    if (array->size() > most) {
                        throw InvalidArgument({place.text(), allowed, fmt::format("{} of them", array->size())});
                    }
                    ValueOf<Field> all;
                    for (const TomlValue& item : *array) {
                        auto given = read(item);
                        if (!given) {
                            refuse(place, allowed, item);
                        }
                        all.push_back(*std::move(given));
                    }
                    at(recipe) = std::move(all);
                },
            .write =
                [=](const Recipe& recipe) {
                    std::vector<std::string> texts;
                    std::ranges::transform(at(recipe), std::back_inserter(texts), write);
                    return fmt::format("[{}]", fmt::join(texts, ", "));
                }};
}

template <typename Field>
SchemaKey integer(std::string name, const Field& at, Between range, std::string about) {
    return value_key(
        std::move(name), at, range.text(), std::move(about), [=](const TomlValue& value) { return range.read(value); },
        [](auto value) { return fmt::to_string(value); });
}

// An optional integer, which `read` gives; empty is written as `word`.
template <typename Field, typename Read>
SchemaKey integer_or(const char* word, std::string name, const Field& at, const std::string& allowed, std::string about,
                     const Read& read) {
    using Value = ValueOf<Field>;
    return value_key(
        std::move(name), at, allowed, std::move(about),
        [=](const TomlValue& value) -> std::optional<Value> {
            if (const auto* text = value.as<std::string>(); text != nullptr && *text == word) {
                return Value();
            }
            const std::optional<std::int64_t> given = read(value);
            return given ? std::optional<Value>(static_cast<typename Value::value_type>(*given)) : std::nullopt;
        },
        [=](const Value& value) { return value ? fmt::to_string(*value) : toml_string(word); });
}

template <typename Field>
SchemaKey integer_or_auto(std::string name, const Field& at, Between range, std::string about) {
    return integer_or("auto", std::move(name), at, "\"auto\" or " + range.text(), std::move(about),
                      [=](const TomlValue& value) { return range.read(value); });
}

template <typename Field>
SchemaKey number(std::string name, const Field& at, Bounds range, std::string about) {
    return value_key(
        std::move(name), at, range.text(), std::move(about), [=](const TomlValue& value) { return range.read(value); },
        toml_number);
}

template <typename Field>
SchemaKey flag(std::string name, const Field& at, std::string about) {
    return value_key(
        std::move(name), at, "true or false", std::move(about),
        [](const TomlValue& value) {
            const auto* given = value.as<bool>();
            return given != nullptr ? std::optional(*given) : std::nullopt;
        },
        [](bool value) { return std::string(value ? "true" : "false"); });
}

// Text that `possible` accepts.
template <typename Field, std::predicate<std::string_view> Possible>
SchemaKey text(std::string name, const Field& at, const std::string& allowed, const Possible& possible,
               std::string about) {
    SchemaKey key = value_key(
        std::move(name), at, allowed, std::move(about),
        [=](const TomlValue& value) {
            auto given = read_text_value(value);
            return given && possible(*given) ? given : std::nullopt;
        },
        stored_text);
    key.text = true;
    return key;
}

template <typename Field>
SchemaKey one_of(std::string name, const Field& at, std::vector<std::string> choices, std::string about) {
    const std::string allowed = fmt::format(
        "\"{}\" or \"{}\"", fmt::join(std::span(choices).first(choices.size() - 1), "\", \""), choices.back());
    const auto possible = [choices = std::move(choices)](std::string_view given) {
        return std::ranges::find(choices, given) != choices.end();
    };
    return text(std::move(name), at, allowed, possible, std::move(about));
}

template <typename Field>
SchemaKey integers(std::string name, const Field& at, Between range, std::size_t most, std::string about) {
    return array_key(
        std::move(name), at, most, fmt::format("an array of at most {}, each {}", most, range.text()), std::move(about),
        [=](const TomlValue& item) { return range.read(item); }, [](auto value) { return fmt::to_string(value); });
}

template <typename Field>
SchemaKey numbers(std::string name, const Field& at, Bounds range, std::size_t most, std::string about) {
    return array_key(
        std::move(name), at, most, fmt::format("an array of at most {}, each {}", most, range.text()), std::move(about),
        [=](const TomlValue& item) { return range.read(item); }, toml_number);
}

template <typename Field>
SchemaKey texts(std::string name, const Field& at, std::size_t most, std::string about) {
    return array_key(
        std::move(name), at, most, fmt::format("an array of at most {} texts", most), std::move(about),
        [](const TomlValue& item) {
            auto given = read_text_value(item);
            return given && !given->empty() ? given : std::nullopt;
        },
        stored_text);
}

template <typename Field>
SchemaKey ops(std::string name, const Field& at, std::string about) {
    return {.name = std::move(name),
            .allowed = "an array of tables such as {op = \"resize\", size = 256}",
            .about = std::move(about),
            .read = [=](Recipe& recipe, const TomlValue& value,
                        const Place& place) { at(recipe) = read_ops(value, place); },
            .write = [=](const Recipe& recipe) { return ops_to_toml(at(recipe)); }};
}

// [data], [data.fields].
std::vector<SchemaKey> data_keys();

}  // namespace stoker::schema
