// An edit replaces the bytes of a value, or inserts a line. Parsing the result shows that only the key has changed.
#include "stoker/recipe/recipe_edit.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/recipe/document.h"

namespace stoker {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // stays at the head of the text

bool same_value(const TomlValue& a, const TomlValue& b);

const TomlMember* find(const TomlTable& table, std::string_view key) {
    const auto found = std::ranges::find(table, key, &TomlMember::key);
    return found == table.end() ? nullptr : &*found;
}

bool same_table(const TomlTable& a, const TomlTable& b) {
    return a.size() == b.size() && std::ranges::all_of(a, [&](const TomlMember& member) {
               const TomlMember* other = find(b, member.key);
               return other != nullptr && same_value(member.value, other->value);
           });
}

// Without lines and the order of keys.
bool same_value(const TomlValue& a, const TomlValue& b) {
    if (a.data.index() != b.data.index()) {
        return false;
    }
    if (const auto* table = a.as<TomlTable>()) {
        return same_table(*table, *b.as<TomlTable>());
    }
    if (const auto* array = a.as<TomlArray>()) {
        return std::ranges::equal(*array, *b.as<TomlArray>(), same_value);
    }
    if (const auto* text = a.as<std::string>()) {
        return *text == *b.as<std::string>();
    }
    if (const auto* number = a.as<double>()) {
        return *number == *b.as<double>();
    }
    if (const auto* integer = a.as<std::int64_t>()) {
        return *integer == *b.as<std::int64_t>();
    }
    const auto* flag = a.as<bool>();
    return flag == nullptr || *flag == *b.as<bool>();
}

// Sets a dotted key in parsed TOML.
void set(TomlTable& table, std::string_view key, const TomlValue& value) {
    const std::size_t dot = key.find('.');
    const std::string name(key.substr(0, dot));
    auto member = std::ranges::find(table, name, &TomlMember::key);
    if (member == table.end()) {
        member = table.insert(table.end(), {.key = name, .line = 0, .value = {.data = TomlTable(), .line = 0}});
    }
    if (dot == std::string_view::npos) {
        member->value = value;
    } else if (auto* below = std::get_if<TomlTable>(&member->value.data)) {
        set(*below, key.substr(dot + 1), value);
    }
}

std::size_t line_begin(const std::string& text, std::size_t at) {
    const std::size_t newline = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    if (newline != std::string::npos) {
        return newline + 1;
    }
    return text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

std::size_t line_end(const std::string& text, std::size_t at) {
    return std::min(text.find('\n', at), text.size());
}

std::string line_break(const std::string& text) {
    return text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
}

std::string indent_at(const std::string& text, std::size_t line) {
    return text.substr(line, std::min(text.find_first_not_of(" \t", line), text.size()) - line);
}

std::string comment_line(const RecipeEdit& edit, const std::string& end) {
    return edit.comment.empty() ? "" : fmt::format("# {}{}", edit.comment, end);
}

// Inserts whole lines at the beginning of a line.
void insert_line(std::string& text, std::size_t at, const RecipeEdit& edit, const std::string& name) {
    const std::string end = line_break(text);
    const std::string indent = indent_at(text, at);
    const std::string comment = comment_line(edit, end);
    text.insert(at,
                (comment.empty() ? "" : indent + comment) + fmt::format("{}{} = {}{}", indent, name, edit.value, end));
}

void replace_value(std::string& text, const TomlSpan& span, const RecipeEdit& edit) {
    text.replace(span.begin, span.end - span.begin, edit.value);
    const std::size_t line = line_begin(text, span.begin);
    const std::string comment = comment_line(edit, line_break(text));
    text.insert(line, comment.empty() ? "" : indent_at(text, line) + comment);
}

// Below "[table]", inside "table = {...}", or next to "table.key = ...".
void insert_in_table(std::string& text, const TomlSpan& table, const RecipeEdit& edit, const std::string& leaf) {
    const std::size_t line = line_begin(text, table.begin);
    if (text[table.begin] == '[') {
        std::size_t next = line_end(text, table.begin);
        if (next == text.size()) {
            text += line_break(text);
            next = text.size() - 1;
        }
        insert_line(text, next + 1, edit, leaf);
    } else if (text[table.begin] == '{') {
        const bool empty = text.find_first_not_of(" \t", table.begin + 1) == table.end - 1;
        text.insert(table.begin + 1, fmt::format("{} = {}{}", leaf, edit.value, empty ? "" : ", "));
        const std::string comment = comment_line(edit, line_break(text));
        text.insert(line, comment.empty() ? "" : indent_at(text, line) + comment);
    } else {
        insert_line(text, line, edit, edit.key);
    }
}

void append_table(std::string& text, const RecipeEdit& edit, const std::string& table, const std::string& leaf) {
    const std::string end = line_break(text);
    text += text.empty() || text.ends_with('\n') ? "" : end;
    text += fmt::format("{}[{}]{}", text.empty() ? "" : end, table, end);
    text += comment_line(edit, end) + fmt::format("{} = {}{}", leaf, edit.value, end);
}

void apply(std::string& text, const RecipeEdit& edit, const std::string& origin) {
    if (const std::optional<TomlSpan> value = find_toml_value(text, edit.key, origin)) {
        return replace_value(text, *value, edit);
    }
    const std::size_t dot = edit.key.rfind('.');
    if (dot == std::string::npos) {
        return insert_line(text, text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0, edit, edit.key);
    }
    const std::string table = edit.key.substr(0, dot);
    const std::string leaf = edit.key.substr(dot + 1);
    const std::optional<TomlSpan> opened = find_toml_value(text, table, origin);
    opened ? insert_in_table(text, *opened, edit, leaf) : append_table(text, edit, table, leaf);
}

}  // namespace

std::string edit_recipe(std::string text, const std::vector<RecipeEdit>& edits, const std::string& origin) {
    for (const RecipeEdit& edit : edits) {
        TomlTable expected = parse_toml(text, origin);
        set(expected, edit.key, parse_toml("value = " + edit.value, edit.key, false).front().value);
        apply(text, edit, origin);
        if (!same_table(parse_toml(text, origin), expected)) {
            throw InvalidArgument({.where = origin,
                                   .expected = fmt::format("a recipe in which {} can be set", edit.key),
                                   .got = "one that would read differently",
                                   .hint = fmt::format("set it by hand: {} = {}", edit.key, edit.value)});
        }
    }
    return text;
}

}  // namespace stoker
