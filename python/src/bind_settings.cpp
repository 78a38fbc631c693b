// The settings that Python shares with recipes: rows of the schema read arguments, and messages name arguments where
// recipes name keys.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <fmt/format.h>

#include "python/src/bindings.h"
#include "stoker/recipe/field_keys.h"

namespace stoker::python {
namespace {

// Null, without Python's exception, if there is none.
nb::object made_or_null(PyObject* made) {
    if (made == nullptr) {
        PyErr_Clear();
    }
    return nb::steal(made);
}

std::string in_python(std::string_view toml) {
    return std::string(toml == "true" ? "True" : toml == "false" ? "False" : toml);
}

bool is_argument(const SchemaKey& key) {
    return key.python && !key.python->type.empty();
}

// Lists for each key the cells of its row in docs/recipe.md (key, allowed, default, about) and of its argument of
// stoker.Loader (type, default, about, name, which loaders take it); empty texts if it is not an argument.
nb::list settings() {
    Recipe recipe;
    recipe.data.fields.more = {{.name = "NAME"}};
    std::vector<SchemaKey> keys = recipe_schema();
    std::ranges::copy(field_keys("NAME"), std::back_inserter(keys));
    nb::list rows;
    for (const SchemaKey& key : keys) {
        const std::string fallback = key.required ? "required" : key.write(recipe);
        const PythonArgument own = is_argument(key) ? *key.python : PythonArgument{.of = ""};
        rows.append(nb::make_tuple(key.name, key.allowed, fallback, key.about, own.type,
                                   own.fallback.empty() ? in_python(fallback) : own.fallback, own.about, own.name,
                                   own.of));
    }
    return rows;
}

// The name of an argument for a key or an option of `stoker pack`; otherwise the word itself.
std::string argument_named(std::string word) {
    if (word.starts_with("--")) {
        word = word == "--field" ? "fields" : word.substr(2);
        std::ranges::replace(word, '-', '_');
        return word;
    }
    const SchemaKey* key = word.find('.') == word.npos ? nullptr : find_schema_key(word);
    return key != nullptr && key->python ? key->python->name : word;
}

}  // namespace

TomlValue toml_value(nb::handle given) {
    if (nb::isinstance<nb::bool_>(given)) {
        return {.data = nb::cast<bool>(given)};
    }
    if (nb::isinstance<nb::str>(given)) {
        return {.data = nb::cast<std::string>(given)};
    }
    if (nb::isinstance<nb::dict>(given)) {
        TomlTable table;
        for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
            table.push_back({.key = nb::cast<std::string>(key), .value = toml_value(value)});
        }
        return {.data = std::move(table)};
    }
    // Before numbers, because a tensor of one element is both.
    if (const nb::object items = made_or_null(PyObject_GetIter(given.ptr()))) {
        TomlArray array;
        std::ranges::transform(nb::borrow<nb::iterator>(items), std::back_inserter(array), toml_value);
        return {.data = std::move(array)};
    }
    if (const nb::object whole = made_or_null(PyNumber_Index(given.ptr()))) {
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
        if (overflow == 0) {
            return {.data = std::int64_t{value}};
        }
    }
    if (const nb::object number = made_or_null(PyNumber_Float(given.ptr()))) {
        return {.data = PyFloat_AsDouble(number.ptr())};
    }
    return {.data = std::string(nb::repr(given).c_str())};  // which no setting takes
}

Recipe read_settings(const nb::dict& given) {
    Recipe recipe;
    for (const SchemaKey& key : recipe_schema()) {
        if (!is_argument(key) || !given.contains(key.python->name.c_str())) {
            continue;
        }
        const nb::object value = given[key.python->name.c_str()];
        if (key.name == "seed") {
            recipe.seed = nb::cast<std::uint64_t>(value);  // TOML's integers end at 2^63
        } else if (key.python->type == "bool") {
            key.read(recipe, {.data = nb::cast<bool>(nb::bool_(value))}, {.key = key.name});
        } else if (!value.is_none() || key.python->fallback != "None") {
            key.read(recipe, toml_value(value), {.key = key.name});
        }
    }
    return recipe;
}

std::string name_arguments(std::string_view message) {
    constexpr std::string_view kIs = " = ";
    constexpr std::string_view kEnds = " ,;:=()[]\"`";
    std::string named;
    bool command = false;  // between backticks
    while (!message.empty()) {
        const std::string word(message.substr(0, std::max<std::size_t>(message.find_first_of(kEnds), 1)));
        message.remove_prefix(word.size());
        command = command != (word == "`");
        const std::string argument = command ? word : argument_named(word);
        named += argument;
        if (argument != word && message.starts_with(kIs)) {
            message.remove_prefix(kIs.size());
            const std::string_view value = message.substr(0, message.find_first_of(kEnds));
            named += '=' + in_python(value);
            message.remove_prefix(value.size());
        }
    }
    return named;
}

void bind_settings(nb::module_& module) {
    module.def("settings", &settings);
    module.def(
        "bad_sample_budget",
        [](const nb::dict& given, std::int64_t samples) { return read_settings(given).data.bad_samples.of(samples); },
        nb::arg("given"), nb::arg("samples"));
}

}  // namespace stoker::python
