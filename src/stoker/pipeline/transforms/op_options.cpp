// Reads and checks the values of an OpSpec.
#include "stoker/pipeline/transforms/op_options.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/base/suggest.h"
#include "stoker/recipe/op_spec.h"

namespace stoker {
namespace {

constexpr int kMaxSide = 1 << 15;  // pixels

}  // namespace

bool OpOptions::has(const std::string& name) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        known_.push_back(name);
    }
    return spec_.options.contains(name);
}

double OpOptions::number(const std::string& name, std::optional<double> fallback, double low, double high) {
    const bool given = has(name);
    if (!given && fallback) {
        return *fallback;
    }
    const auto* value = given ? std::get_if<double>(&spec_.options.at(name)) : nullptr;
    if (value == nullptr || !(*value >= low && *value <= high)) {
        refuse(name, fmt::format("a number from {} to {}", low, high));
    }
    return *value;
}

int OpOptions::whole(const std::string& name, std::optional<int> fallback, int low, int high) {
    const double value = number(name, fallback, low, high);
    if (value != std::floor(value)) {
        refuse(name, fmt::format("a whole number from {} to {}", low, high));
    }
    return static_cast<int>(value);
}

bool OpOptions::is_text(const std::string& name) {
    return has(name) && std::holds_alternative<std::string>(spec_.options.at(name));
}

const std::vector<OpSpec>& OpOptions::ops() {
    const auto* ops = has("ops") ? std::get_if<std::vector<OpSpec>>(&spec_.options.at("ops")) : nullptr;
    if (ops == nullptr) {
        refuse("ops", "a list of ops, such as [{op = \"random_rotation\", degrees = 10}]");
    }
    return *ops;
}

bool OpOptions::flag(const std::string& name, bool fallback) {
    if (!has(name)) {
        return fallback;
    }
    const auto* value = std::get_if<bool>(&spec_.options.at(name));
    if (value == nullptr) {
        refuse(name, "true or false");
    }
    return *value;
}

std::vector<double> OpOptions::numbers(const std::string& name, std::vector<double> fallback, std::size_t least,
                                       std::size_t most) {
    if (!has(name)) {
        return fallback;
    }
    const OptionValue& value = spec_.options.at(name);
    std::vector<double> list;
    if (const auto* one = std::get_if<double>(&value); one != nullptr && least == 1) {
        list = {*one};
    } else if (const auto* many = std::get_if<std::vector<double>>(&value)) {
        list = *many;
    }
    if (list.size() < least || list.size() > most) {
        refuse(name, least == most ? fmt::format("a list of {} numbers", least)
                                   : fmt::format("a number or a list of up to {} numbers", most));
    }
    return list;
}

ImageSize OpOptions::size() {
    const std::vector<double> list = numbers("size", {}, 1, 2);
    for (const double side : list) {
        if (side < 1 || side > kMaxSide || side != std::floor(side)) {
            refuse("size", fmt::format("whole pixels from 1 to {}", kMaxSide));
        }
    }
    if (list.empty()) {
        const std::string misspelt = misspelling_of("size");
        throw InvalidArgument({.where = spec_.where,
                               .expected = fmt::format("the option size for {}", spec_.name),
                               .got = misspelt.empty() ? "none" : misspelt,
                               .hint = misspelt.empty() ? fmt::format("write {{op = \"{}\", size = 224}}", spec_.name)
                                                        : "did you mean \"size\"?"});
    }
    return {static_cast<int>(list.front()), static_cast<int>(list.back())};
}

std::size_t OpOptions::choice(const std::string& name, const std::vector<std::string>& names) {
    if (!has(name)) {
        return 0;
    }
    const auto* value = std::get_if<std::string>(&spec_.options.at(name));
    if (value == nullptr) {
        refuse(name, "a string");
    }
    const auto found = std::ranges::find(names, *value);
    if (found == names.end()) {
        refuse(name, fmt::format("one of {}", fmt::join(names, ", ")), nearest_name_hint(*value, names));
    }
    return static_cast<std::size_t>(found - names.begin());
}

Color OpOptions::color(const std::string& name) {
    Color color{};
    const std::vector<double> list = numbers(name, {0}, 1, color.size());
    color_values_ = std::max(color_values_, list.size());
    for (std::size_t c = 0; c < color.size(); ++c) {
        const double value = list[std::min(c, list.size() - 1)];
        if (!(value >= 0 && value <= 255 && value == std::floor(value))) {
            refuse(name, "whole values from 0 to 255");
        }
        color[c] = static_cast<std::uint8_t>(value);
    }
    return color;
}

Interpolation OpOptions::interpolation() {
    return choice("interpolation", {"nearest", "bilinear"}) == 0 ? Interpolation::nearest : Interpolation::bilinear;
}

std::string OpOptions::misspelling_of(const std::string& name) const {
    for (const auto& [given, value] : spec_.options) {
        const bool known = std::find(known_.begin(), known_.end(), given) != known_.end();
        if (!known && !nearest_name(given, std::span(&name, 1)).empty()) {
            return given;
        }
    }
    return "";
}

void OpOptions::refuse(const std::string& name, const std::string& expected, const std::string& hint) const {
    const auto given = spec_.options.find(name);
    const std::string misspelt = given == spec_.options.end() ? misspelling_of(name) : "";
    throw InvalidArgument({.where = fmt::format("{}.{}", spec_.where, misspelt.empty() ? name : misspelt),
                           .expected = misspelt.empty() ? expected : fmt::format("an option of {}", spec_.name),
                           .got = !misspelt.empty()              ? misspelt
                                  : given == spec_.options.end() ? "none"
                                                                 : option_to_toml(given->second),
                           .hint = misspelt.empty() ? hint : fmt::format("did you mean \"{}\"?", name)});
}

void OpOptions::finish() const {
    for (const auto& [name, value] : spec_.options) {
        if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
            const std::string known = known_.empty() ? "it has none" : fmt::format("{}", fmt::join(known_, ", "));
            throw InvalidArgument({.where = spec_.where,
                                   .expected = fmt::format("an option of {}: {}", spec_.name, known),
                                   .got = name,
                                   .hint = nearest_name_hint(name, known_)});
        }
    }
}

}  // namespace stoker
