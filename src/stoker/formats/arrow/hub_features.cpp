#include "stoker/formats/arrow/hub_features.h"

#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

void add(const std::string& name, const Json& feature, std::map<std::string, HubFeature>& found) {
    if (feature.is_array() && feature.size() == 1) {  // a list, as older releases write it
        add(name, feature.front(), found);
        return;
    }
    if (!feature.is_object()) {
        return;
    }
    const auto type = feature.find("_type");
    if (type == feature.end() || !type->is_string()) {  // a struct
        for (const auto& [key, value] : feature.items()) {
            add(name.empty() ? key : name + "." + key, value, found);
        }
        return;
    }
    if (const auto values = feature.find("feature"); values != feature.end()) {  // Sequence, List, LargeList
        add(name, *values, found);
        return;
    }
    HubFeature& one = found[name];
    one.type = type->get<std::string>();
    if (const auto names = feature.find("names"); names != feature.end() && names->is_array()) {
        for (const Json& text : *names) {
            one.names.push_back(text.is_string() ? text.get<std::string>() : text.dump());
        }
    }
}

}  // namespace

std::map<std::string, HubFeature> read_hub_features(const std::string& json) {
    std::map<std::string, HubFeature> found;
    if (json.empty()) {
        return found;
    }
    const Json all = parse_json<Json>(json);
    const Json* features = &all;
    for (const char* key : {"info", "features"}) {
        if (!features->is_object()) {
            throw DataError({}, {.where = "metadata", .expected = "the Hub's features as JSON", .got = "other text"});
        }
        const auto next = features->find(key);
        if (next == features->end() || next->is_null()) {
            return found;
        }
        features = &*next;
    }
    add("", *features, found);
    return found;
}

}  // namespace stoker
