// The text is JSON of a node with its type, the JSON of its keys, and its children; that of a leaf is null.
// parse_json limits the depth.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/litdata/litdata_index.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLeaves = 4096;

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "data_spec", .expected = std::move(expected), .got = std::move(got)});
}

// Keys that are not text are shown as JSON.
std::vector<std::string> keys_of(const Json& node) {
    const Json* context = json_optional_member(node, "context");
    Json keys = context != nullptr && context->is_string() ? parse_json<Json>(context->get<std::string>()) : Json();
    if (keys.is_object() && keys.contains("dict_context")) {  // of a defaultdict
        keys = Json(keys["dict_context"]);
    }
    std::vector<std::string> names;
    for (const Json& key : keys.is_array() ? keys : Json::array()) {
        names.push_back(key.is_string() ? key.get<std::string>() : json_text(key));
    }
    return names;
}

void add_leaves(const Json& node, const std::string& name, std::vector<std::string>& names) {
    if (json_optional_member(node, "type") == nullptr) {
        names.push_back(name.empty() ? "0" : name);
        if (names.size() > kMostLeaves) {
            refuse(fmt::format("at most {} leaves", kMostLeaves), "more");
        }
        return;
    }
    const Json& children = json_member(node, "children_spec");
    if (!children.is_array()) {
        refuse("a list of children", children.type_name());
    }
    const std::vector<std::string> keys = keys_of(node);
    for (std::size_t i = 0; i < children.size(); ++i) {
        const std::string own = keys.size() == children.size() ? keys[i] : fmt::format("{}", i);
        add_leaves(children[i], name.empty() ? own : fmt::format("{}.{}", name, own), names);
    }
}

}  // namespace

std::vector<std::string> litdata_leaf_names(const std::string& spec) {
    const Json json = parse_json<Json>(spec);
    if (!json.is_array() || json.size() != 2 || json[0] != 1) {
        refuse("the structure of a sample, [1, {...}]", json_text(json).substr(0, 40));
    }
    std::vector<std::string> names;
    add_leaves(json[1], "", names);
    return names;
}

}  // namespace stoker
