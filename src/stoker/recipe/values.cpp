// Every text form is decimal digits and a unit, so the parsers are std::from_chars and a comparison of the rest.
#include "stoker/recipe/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

struct ByteUnit {
    std::string_view name;
    std::int64_t bytes;
};

constexpr std::array<ByteUnit, 8> kByteUnits{{
    {"TiB", std::int64_t{1} << 40},
    {"GiB", std::int64_t{1} << 30},
    {"MiB", std::int64_t{1} << 20},
    {"KiB", std::int64_t{1} << 10},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"KB", 1'000},
}};
constexpr std::size_t kBinaryUnits = 4;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// A non-negative integer and the unit behind it, without the blanks in between.
struct Counted {
    std::int64_t count = 0;
    std::string_view unit;
};

std::optional<Counted> parse_counted(std::string_view text) {
    if (text.empty() || !is_digit(text.front())) {
        return std::nullopt;
    }
    Counted given;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, given.count);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    given.unit = {rest, static_cast<std::size_t>(end - rest)};
    given.unit.remove_prefix(std::min(given.unit.find_first_not_of(' '), given.unit.size()));
    return given;
}

// "10%" is 10. Empty for anything but a number of at least 0 and a percent sign.
std::optional<double> parse_percent(std::string_view text) {
    if (!text.ends_with('%') || !is_digit(text.front())) {
        return std::nullopt;
    }
    double percent = 0;
    const char* end = text.data() + text.size() - 1;
    const auto [rest, error] = std::from_chars(text.data(), end, percent);
    return error == std::errc{} && rest == end ? std::optional(percent) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_byte_size(std::string_view text) {
    const auto given = parse_counted(text);
    if (!given) {
        return std::nullopt;
    }
    if (given->unit.empty()) {
        return is_digit(text.back()) ? std::optional(given->count) : std::nullopt;
    }
    const auto unit = std::ranges::find(kByteUnits, given->unit, &ByteUnit::name);
    if (unit == kByteUnits.end() || given->count > std::numeric_limits<std::int64_t>::max() / unit->bytes) {
        return std::nullopt;
    }
    return given->count * unit->bytes;
}

std::string byte_size_text(std::int64_t bytes) {
    for (std::size_t i = 0; i < kBinaryUnits; ++i) {
        if (bytes > 0 && bytes % kByteUnits[i].bytes == 0) {
            return fmt::format("{}{}", bytes / kByteUnits[i].bytes, kByteUnits[i].name);
        }
    }
    return fmt::format("{}", bytes);
}

std::optional<Interval> parse_interval(std::string_view text, std::int64_t least) {
    const auto given = parse_counted(text);
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    if (!given || given->count < least || given->count > kLargest) {
        return std::nullopt;
    }
    if (given->unit == "epoch" || given->unit == "epochs") {
        return Interval{.count = given->count, .epochs = true};
    }
    if (given->unit == "step" || given->unit == "steps") {
        return Interval{.count = given->count, .epochs = false};
    }
    return std::nullopt;
}

std::string interval_text(const Interval& every) {
    return fmt::format("{} {}", every.count, plural(every.count, every.epochs ? "epoch" : "step"));
}

std::optional<double> parse_share(std::string_view text) {
    const std::optional<double> percent = parse_percent(text);
    return percent && *percent > 0 && *percent / 100 < 1 ? std::optional(*percent / 100) : std::nullopt;
}

std::optional<BadSamples> parse_bad_samples(std::string_view text) {
    if (const std::optional<double> percent = parse_percent(text)) {
        return *percent <= 100 ? std::optional(BadSamples{.percent = *percent}) : std::nullopt;
    }
    const auto given = parse_counted(text);
    return given && given->unit.empty() && is_digit(text.back()) ? std::optional(BadSamples{.count = given->count})
                                                                 : std::nullopt;
}

std::string bad_samples_toml(const BadSamples& bad) {
    return bad.percent == 0 ? fmt::to_string(bad.count) : toml_string(fmt::format("{}%", bad.percent));
}

std::string toml_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string toml_number(double value) {
    std::string text = fmt::format("{}", value);
    const bool digits_only = text.find_first_of(".en") == std::string::npos;  // "n": inf and nan
    const bool negative_zero = value == 0 && std::signbit(value);
    if (digits_only && (negative_zero || std::abs(value) > static_cast<double>(kMaxExactInteger))) {
        text += ".0";  // a TOML integer would lose the sign, or be refused as inexact
    }
    return text;
}

std::string toml_key(std::string_view key) {
    const auto bare = [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    };
    return !key.empty() && std::ranges::all_of(key, bare) ? std::string(key) : toml_string(key);
}

}  // namespace stoker
