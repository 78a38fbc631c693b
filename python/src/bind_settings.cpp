// The rows are read and written by the functions of the recipe's schema, so both front ends take the same values.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/loader_arguments.h"
#include "stoker/base/error.h"
#include "stoker/recipe/field_keys.h"
#include "stoker/recipe/loader_settings.h"

namespace stoker::python {
namespace {

using Of = PythonArgument::Of;

constexpr const char* kAnyField = "NAME";
constexpr std::string_view kFields = "data.fields.";

// Of the schema, with [data.fields.NAME] after [data.fields].
std::vector<SchemaKey> all_keys() {
    std::vector<SchemaKey> keys = recipe_schema();
    const auto end = std::ranges::find_if(keys.rbegin(), keys.rend(),
                                          [](const SchemaKey& key) { return key.name.starts_with(kFields); });
    const std::vector<SchemaKey> fields = field_keys(kAnyField);
    keys.insert(end.base(), fields.begin(), fields.end());
    return keys;
}

const SchemaKey* find_argument(const std::vector<SchemaKey>& keys, std::string_view name) {
    const auto found = std::ranges::find_if(keys, [&](const SchemaKey& key) {
        return key.python && key.python->of != Of::nothing && key.python->name == name;
    });
    return found == keys.end() ? nullptr : &*found;
}

// Without an exception of Python's.
nb::object or_none(PyObject* made) {
    if (made == nullptr) {
        PyErr_Clear();
        return nb::none();
    }
    return nb::steal(made);
}

// Empty for objects without a form in TOML.
std::optional<TomlValue> toml_value(nb::handle given) {
    if (nb::isinstance<nb::bool_>(given)) {
        return TomlValue{.data = given.is(Py_True)};
    }
    if (nb::isinstance<nb::str>(given)) {
        return TomlValue{.data = nb::cast<std::string>(given)};
    }
    if (nb::isinstance<nb::dict>(given)) {
        TomlTable table;
        for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
            std::optional<TomlValue> inner = toml_value(value);
            if (!inner) {
                return std::nullopt;
            }
            table.push_back({.key = nb::cast<std::string>(key), .value = *std::move(inner)});
        }
        return TomlValue{.data = std::move(table)};
    }
    // Before numbers, because a tensor of one element is both.
    if (const nb::object items = or_none(PyObject_GetIter(given.ptr())); !items.is_none()) {
        TomlArray array;
        for (const nb::handle item : nb::borrow<nb::iterator>(items)) {
            std::optional<TomlValue> inner = toml_value(item);
            if (!inner) {
                return std::nullopt;
            }
            array.push_back(*std::move(inner));
        }
        return TomlValue{.data = std::move(array)};
    }
    if (const nb::object whole = or_none(PyNumber_Index(given.ptr())); !whole.is_none()) {
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
        return overflow == 0 ? TomlValue{.data = std::int64_t{value}} : TomlValue{.data = PyLong_AsDouble(whole.ptr())};
    }
    if (const nb::object number = or_none(PyNumber_Float(given.ptr())); !number.is_none()) {
        return TomlValue{.data = PyFloat_AsDouble(number.ptr())};
    }
    return std::nullopt;
}

// Python may have fewer choices than a recipe: those of its type.
void require_choice(const SchemaKey& key, nb::handle given) {
    constexpr std::string_view kLiteral = "Literal[";
    const std::string_view type = key.python->type;
    if (!type.starts_with(kLiteral) || !type.ends_with(']')) {
        return;
    }
    const std::string_view choices = type.substr(kLiteral.size(), type.size() - kLiteral.size() - 1);
    const std::string got =
        nb::isinstance<nb::str>(given) ? fmt::format("\"{}\"", nb::cast<std::string>(given)) : nb::repr(given).c_str();
    if (choices.find(got) == std::string_view::npos) {
        throw InvalidArgument({.where = key.name, .expected = fmt::format("one of {}", choices), .got = got});
    }
}

void read_argument(Recipe& recipe, const SchemaKey& key, nb::handle given) {
    if (given.is_none() && key.python->fallback == "None") {
        return;
    }
    if (key.python->type == "bool") {
        key.read(recipe, {.data = nb::cast<bool>(nb::bool_(given))}, {.key = key.name});
        return;
    }
    require_choice(key, given);
    const std::optional<TomlValue> value = toml_value(given);
    if (!value) {
        throw InvalidArgument({.where = key.name, .expected = key.allowed, .got = nb::repr(given).c_str()});
    }
    key.read(recipe, *value, {.key = key.name});
}

// One that is given for each of some fields, as a dict by name: pad={"boxes": 50}.
void read_of_fields(Recipe& recipe, std::string_view name, nb::handle given) {
    if (given.is_none()) {
        return;
    }
    for (const auto& [field, value] : nb::borrow<nb::dict>(given)) {
        const std::vector<SchemaKey> keys = field_keys(nb::cast<std::string>(field));
        read_argument(recipe, *find_argument(keys, name), value);
    }
}

// TOML numbers end before 2^63, seeds before 2^64.
std::optional<std::uint64_t> large_seed(nb::handle given) {
    const nb::object whole = or_none(PyNumber_Index(given.ptr()));
    const std::uint64_t seed = whole.is_none() ? 0 : PyLong_AsUnsignedLongLong(whole.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return std::nullopt;
    }
    return seed >> 63 != 0 ? std::optional(seed) : std::nullopt;
}

nb::dict row_of(const PythonArgument& argument) {
    constexpr std::array kNames = {"all", "opened", "engine", "python", ""};
    nb::dict row;
    row["name"] = argument.name;
    row["type"] = argument.type;
    row["default"] = argument.fallback;
    row["about"] = argument.about;
    row["of"] = kNames.at(static_cast<std::size_t>(argument.of));
    return row;
}

// Each row as ([key, allowed, default, about] of a recipe or None, the argument of stoker.Loader or None).
nb::list settings() {
    Recipe recipe;
    recipe.data.fields.more = {{.name = kAnyField}};
    nb::list rows;
    for (const SchemaKey& key : all_keys()) {
        const bool taken = key.python && key.python->of != Of::nothing;
        rows.append(nb::make_tuple(
            nb::make_tuple(key.name, key.allowed, key.required ? "required" : fmt::format("`{}`", key.write(recipe)),
                           key.about),
            taken ? nb::object(row_of(*key.python)) : nb::none()));
    }
    for (const PythonArgument& argument : python_settings()) {
        rows.append(nb::make_tuple(nb::none(), row_of(argument)));
    }
    return rows;
}

std::string value_in_python(std::string_view toml) {
    return std::string(toml == "true" ? "True" : toml == "false" ? "False" : toml);
}

// --skip-bad true: skip_bad=True; --field NEW=OLD: fields={NEW: OLD}.
std::string option_in_python(std::string_view option, std::string_view value) {
    if (option == "field") {
        const std::size_t between = value.find_first_of("=:");
        return between == std::string_view::npos
                   ? std::string("fields")
                   : fmt::format("stoker.open(path, fields={{{}: {}}})", value.substr(0, between),
                                 value[between] == '=' ? std::string(value.substr(between + 1))
                                                       : fmt::format("({0}, \"{1}\")", value.substr(0, between),
                                                                     value.substr(between + 1)));
    }
    std::string name(option);
    std::ranges::replace(name, '-', '_');
    const bool plain = value == "true" || value.find_first_not_of("0123456789") == std::string_view::npos;
    return value.empty() ? name
                         : fmt::format(fmt::runtime(plain ? "{}={}" : "{}=\"{}\""), name, value_in_python(value));
}

// The argument in messages about a further field: data.fields.boxes.pad is pad["boxes"].
std::string field_in_python(std::string_view key, std::string_view value) {
    const std::string_view rest = key.substr(kFields.size());
    const std::size_t dot = rest.find('.');
    const std::string_view field = rest.substr(0, dot);
    const std::string_view leaf = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    if (leaf == "is") {
        return fmt::format("fields={{{}: (NAME_IN_THE_DATA, {})}}", field, value);
    }
    const std::size_t end = std::min(leaf.find_first_of("[."), leaf.size());
    for (const SchemaKey& one : field_keys(kAnyField)) {
        if (one.python && one.leaf() == leaf.substr(0, end)) {
            return fmt::format("{}[\"{}\"]{}", one.python->name, field, leaf.substr(end));
        }
    }
    return std::string(key);
}

}  // namespace

Recipe read_arguments(const nb::dict& given) {
    Recipe recipe;
    const std::vector<SchemaKey> keys = all_keys();
    for (const auto& [word, value] : given) {
        const auto name = nb::cast<std::string>(word);
        const SchemaKey* key = find_argument(keys, name);
        const std::optional<std::uint64_t> seed = name == "seed" ? large_seed(value) : std::nullopt;
        if (seed) {
            recipe.seed = *seed;
        } else if (key != nullptr && key->name.starts_with(kFields)) {
            read_of_fields(recipe, name, value);
        } else if (key != nullptr) {
            read_argument(recipe, *key, value);
        }
    }
    return recipe;
}

std::string name_in_python(std::string_view key, std::string_view value) {
    constexpr std::string_view kOption = "--";
    if (key == kForPrograms) {
        return {};
    }
    if (key.starts_with(kOption)) {
        return option_in_python(key.substr(kOption.size()), value);
    }
    if (key == "data.train" && !value.empty()) {
        return fmt::format("stoker.open({}) opens one of them", value);
    }
    const std::size_t index = std::min(key.find('['), key.size());  // "data.train_ops[0].size"
    const SchemaKey* found = find_schema_key(key.substr(0, index));
    if (found != nullptr && found->python) {
        const std::string name = found->python->name + std::string(key.substr(index));
        return value.empty() ? name : fmt::format("{}={}", name, value_in_python(value));
    }
    return key.starts_with(kFields) ? field_in_python(key, value) : std::string(key);
}

void bind_settings(nb::module_& module) {
    module.def("settings", &settings);
    module.def(
        "check_arguments", [](const nb::dict& given) { read_arguments(given); }, nb::arg("given"));
    module.def(
        "bad_sample_budget",
        [](const nb::dict& given, std::int64_t samples) { return read_arguments(given).data.bad_samples.of(samples); },
        nb::arg("given"), nb::arg("samples"));
}

}  // namespace stoker::python
