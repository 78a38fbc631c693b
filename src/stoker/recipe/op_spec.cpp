// Reads and writes lists of ops. All numbers are doubles; ops that need integers check that themselves.
#include "stoker/recipe/op_spec.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/recipe/values.h"

namespace stoker {
namespace {

constexpr const char* kEntry = "a table such as {op = \"resize\", size = 256}";
constexpr const char* kOption = "true or false, a number, text, or an array of numbers or ops";

[[noreturn]] void refuse(const Place& place, const char* expected, const std::string& got) {
    throw InvalidArgument({.where = place.text(), .expected = expected, .got = got});
}

std::vector<double> read_numbers(const TomlArray& array, const Place& place) {
    std::vector<double> numbers;
    numbers.reserve(array.size());
    for (const TomlValue& item : array) {
        const std::optional<double> number = exact_number(item);
        if (!number) {
            refuse(place, kOption, fmt::format("an array with {}", describe(item)));
        }
        numbers.push_back(*number);
    }
    return numbers;
}

OptionValue read_option(const TomlValue& value, const Place& place) {
    if (const auto* flag = value.as<bool>()) {
        return *flag;
    }
    if (const auto* text = value.as<std::string>()) {
        return *text;
    }
    if (const auto* array = value.as<TomlArray>()) {
        const bool ops = !array->empty() && array->front().as<TomlTable>() != nullptr;
        return ops ? OptionValue(read_ops(value, place)) : OptionValue(read_numbers(*array, place));
    }
    const std::optional<double> number = exact_number(value);
    if (!number) {
        refuse(place, kOption, describe(value));
    }
    return *number;
}

OpSpec read_op(const TomlValue& value, const Place& place) {
    const auto* table = value.as<TomlTable>();
    if (table == nullptr) {
        refuse(place, kEntry, describe(value));
    }
    if (std::ranges::find(*table, "op", &TomlMember::key) == table->end()) {
        const bool nested = !table->empty() && table->front().value.as<TomlTable>() != nullptr;
        throw InvalidArgument(
            {.where = place.text(),
             .expected = kEntry,
             .got = "a table without \"op\"",
             .hint = nested ? fmt::format("write {{op = {}, ...}}", toml_string(table->front().key)) : ""});
    }
    OpSpec op{.name = {}, .options = {}, .where = place.text()};
    for (const TomlMember& member : *table) {
        const Place inner = place.inner(fmt::format("{}.{}", place.key, member.key), member.line);
        if (member.key != "op") {
            op.options[member.key] = read_option(member.value, inner);
            continue;
        }
        const auto* name = member.value.as<std::string>();
        if (name == nullptr || name->empty()) {
            refuse(inner, "the name of an op", describe(member.value));
        }
        op.name = *name;
    }
    return op;
}

struct OptionWriter {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(double number) const { return toml_number(number); }
    std::string operator()(const std::string& text) const { return toml_string(text); }
    std::string operator()(const std::vector<double>& numbers) const { return list(numbers, toml_number); }
    std::string operator()(const std::vector<OpSpec>& ops) const { return list(ops, op_to_toml); }

  private:
    template <typename Items, typename Text>
    static std::string list(const Items& items, const Text& text_of) {
        std::string text;
        for (const auto& item : items) {
            text += (text.empty() ? "" : ", ") + text_of(item);
        }
        return "[" + text + "]";
    }
};

}  // namespace

std::vector<OpSpec> read_ops(const TomlValue& value, const Place& place) {
    const auto* array = value.as<TomlArray>();
    if (array == nullptr) {
        refuse(place, "an array of tables such as {op = \"resize\", size = 256}", describe(value));
    }
    std::vector<OpSpec> ops;
    ops.reserve(array->size());
    for (const TomlValue& entry : *array) {
        ops.push_back(read_op(entry, place.inner(fmt::format("{}[{}]", place.key, ops.size()), entry.line)));
    }
    return ops;
}

std::string option_to_toml(const OptionValue& value) {
    return std::visit(OptionWriter{}, value);
}

std::string op_to_toml(const OpSpec& op) {
    std::string text = fmt::format("{{op = {}", toml_string(op.name));
    for (const auto& [name, value] : op.options) {
        text += fmt::format(", {} = {}", toml_key(name), option_to_toml(value));
    }
    return text + "}";
}

std::string ops_to_toml(const std::vector<OpSpec>& ops) {
    if (ops.empty()) {
        return "[]";
    }
    std::string text = "[\n";
    for (const OpSpec& op : ops) {
        text += fmt::format("    {},\n", op_to_toml(op));
    }
    return text + "]";
}

}  // namespace stoker
