// Copies the result of toml++ into plain values. The size of the text is checked before parsing, and the depth of
// nesting while copying, so no text can exhaust the stack.
#include "stoker/recipe/document.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

// toml++ asserts on some malformed text, such as "[=", which the code after the assertion refuses properly. A debug
// build with a header-only toml++ would abort.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "stoker/base/url_secrets.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

constexpr int kMaxDepth = 16;  // a recipe has four levels
constexpr std::size_t kShownBytes = 60;

int line_of(const toml::source_region& region) {
    return static_cast<int>(region.begin.line);
}

// The name of the text in messages.
struct Origin {
    const std::string& name;
    bool has_lines;

    std::string at(int line) const { return has_lines && line > 0 ? fmt::format("{}:{}", name, line) : name; }
};

TomlTable copy_table(const toml::table& table, const Origin& origin, int depth);

TomlValue copy(const toml::node& node, const Origin& origin, int depth) {
    const int line = line_of(node.source());
    if (depth > kMaxDepth) {
        throw InvalidArgument({.where = origin.at(line),
                               .expected = fmt::format("at most {} levels of tables and arrays", kMaxDepth),
                               .got = "more"});
    }
    TomlValue value{.data = {}, .line = line};
    if (const auto* flag = node.as_boolean()) {
        value.data = flag->get();
    } else if (const auto* integer = node.as_integer()) {
        value.data = integer->get();
    } else if (const auto* number = node.as_floating_point()) {
        value.data = number->get();
    } else if (const auto* text = node.as_string()) {
        value.data = text->get();
    } else if (const auto* array = node.as_array()) {
        TomlArray items;
        items.reserve(array->size());
        for (const toml::node& item : *array) {
            items.push_back(copy(item, origin, depth + 1));
        }
        value.data = std::move(items);
    } else if (const auto* table = node.as_table()) {
        value.data = copy_table(*table, origin, depth + 1);
    }
    return value;
}

TomlTable copy_table(const toml::table& table, const Origin& origin, int depth) {
    struct Found {
        toml::source_position position;
        TomlMember member;
    };
    std::vector<Found> found;
    found.reserve(table.size());
    for (const auto& [key, node] : table) {
        found.push_back(
            {key.source().begin, {std::string(key.str()), line_of(key.source()), copy(node, origin, depth)}});
    }
    std::ranges::stable_sort(found, [](const Found& a, const Found& b) { return a.position < b.position; });
    TomlTable members;
    members.reserve(found.size());
    for (Found& each : found) {
        members.push_back(std::move(each.member));
    }
    return members;
}

}  // namespace

std::string Place::text() const {
    return line > 0 ? fmt::format("{}:{}: {}", origin, line, key) : origin.empty() ? key : origin + ' ' + key;
}

Place Place::inner(std::string inner_key, int inner_line) const {
    return {.origin = origin, .line = line > 0 ? inner_line : 0, .key = std::move(inner_key)};
}

namespace {

// A value that is text without quotes, such as shapes, ./data or 5epochs.
bool lacks_quotes(std::string_view reason) {
    const auto begins = {"value: could not determine value type", "value: values may not begin", "boolean: expected",
                         "floating-point: expected", "decimal integer: expected"};
    return std::ranges::any_of(begins, [&](std::string_view begin) { return reason.starts_with(begin); });
}

// Checks the size of the text before parsing.
toml::table parse_checked(std::string_view text, const Origin& origin) {
    if (text.size() > kMaxTomlBytes) {
        throw InvalidArgument({.where = origin.name,
                               .expected = fmt::format("TOML text of at most {} bytes", kMaxTomlBytes),
                               .got = fmt::format("{} bytes", text.size())});
    }
    const auto dots = static_cast<std::size_t>(std::ranges::count(text, '.'));
    if (dots > kMaxTomlDots) {
        throw InvalidArgument({.where = origin.name,
                               .expected = fmt::format("TOML text with at most {} dots", kMaxTomlDots),
                               .got = fmt::format("{}", dots)});
    }
    try {
        return toml::parse(text, std::string_view{});
    } catch (const toml::parse_error& error) {
        std::string_view reason = error.description();
        constexpr std::string_view kPrefix = "Error while parsing ";
        if (reason.starts_with(kPrefix)) {
            reason.remove_prefix(kPrefix.size());
        }
        throw InvalidArgument({.where = origin.at(line_of(error.source())),
                               .expected = "TOML",
                               .got = fmt::format("text that is not: {}", reason),
                               .hint = lacks_quotes(reason) ? "text needs quotes: \"...\"" : ""});
    }
}

// toml++ counts lines and code points from 1, and does not count a byte order mark.
std::size_t offset_of(std::string_view text, const toml::source_position& position) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    for (auto line = position.line; line > 1; --line) {
        at = std::min(text.find('\n', at), text.size() - 1) + 1;
    }
    for (auto column = position.column; column > 1 && at < text.size(); --column) {
        do {
            ++at;
        } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    }
    return at;
}

}  // namespace

TomlTable parse_toml(std::string_view text, const std::string& origin, bool has_lines) {
    return copy_table(parse_checked(text, {origin, has_lines}), {origin, has_lines}, 0);
}

std::optional<TomlSpan> find_toml_value(std::string_view text, std::string_view key, const std::string& origin) {
    const toml::table table = parse_checked(text, {origin, true});
    const toml::node* node = table.at_path(key).node();
    if (node == nullptr) {
        return std::nullopt;
    }
    return TomlSpan{.begin = offset_of(text, node->source().begin), .end = offset_of(text, node->source().end)};
}

std::optional<double> exact_number(const TomlValue& value) {
    if (const auto* integer = value.as<std::int64_t>()) {
        const bool exact = *integer >= -kMaxExactInteger && *integer <= kMaxExactInteger;
        return exact ? std::optional(static_cast<double>(*integer)) : std::nullopt;
    }
    const auto* number = value.as<double>();
    return number != nullptr && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
}

std::string describe(const TomlValue& value) {
    if (const auto* flag = value.as<bool>()) {
        return *flag ? "true" : "false";
    }
    if (const auto* integer = value.as<std::int64_t>()) {
        return fmt::format("{}", *integer);
    }
    if (const auto* number = value.as<double>()) {
        return fmt::format("{:#}", *number);
    }
    if (const auto* text = value.as<std::string>()) {
        return quoted_short(*text);
    }
    if (value.as<TomlArray>() != nullptr) {
        return "an array";
    }
    return value.as<TomlTable>() != nullptr ? "a table" : "a date or a time";
}

std::string quoted_short(std::string_view given) {
    const std::string shown = shown_url(given);
    const std::string_view text = shown;
    if (text.size() <= kShownBytes) {
        return fmt::format("\"{}\"", text);
    }
    std::size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
        --end;  // not inside a UTF-8 sequence
    }
    return fmt::format("\"{}...\"", text.substr(0, end));
}

}  // namespace stoker
