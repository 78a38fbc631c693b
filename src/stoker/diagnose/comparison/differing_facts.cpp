// Facts are compared as the JSON that records_json writes, so that a new fact is compared without a line here.
#include "stoker/diagnose/comparison/differing_facts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "stoker/base/byte_text.h"
#include "stoker/base/json_depth.h"
#include "stoker/records/records_json.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;
using Flat = std::map<std::string, Json>;

void flatten(const Json& json, const std::string& prefix, Flat& out) {
    for (const auto& [key, value] : json.items()) {
        if (value.is_object()) {
            flatten(value, prefix + key + ".", out);
        } else {
            out[prefix + key] = value;
        }
    }
}

Flat flat_facts(const RunFacts& facts) {
    Flat flat;
    flatten(parse_json<Json>(to_json_line(facts, 0)), "", flat);
    for (const char* const key : {"type", "schema", "step", "rank"}) {
        flat.erase(key);
    }
    return flat;
}

std::string text_of(const std::string& key, const Json& value) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    if (value.is_number() && key.ends_with("_bytes") && std::abs(value.get<double>()) < 9e18) {
        return byte_text(std::llround(value.get<double>()));
    }
    return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : json_text(value);
}

// A value that one of them lacks says something only if the same writer wrote both: an empty word is left out of a
// line, but machine and releases are unknown to older records.
bool may_lack(const std::string& key) {
    return row_of(key).tolerance == 0 && !key.starts_with("host.") && !key.starts_with("device.") &&
           !key.starts_with("software.");
}

void add_fact(const std::string& key, const Json& a, const Json& b, std::vector<Difference>& out) {
    Difference difference{.key = key, .name = key, .row = &row_of(key)};
    if (a.is_number() && b.is_number()) {
        if (alike(a.get<double>(), b.get<double>(), difference.row->tolerance)) {
            return;
        }
        difference.is_number = true;
        difference.growth = growth_of(a.get<double>(), b.get<double>());
    } else if (a.is_boolean() && b.is_boolean()) {
        difference.is_number = a != b;
        difference.growth = growth_of(a.get<bool>() ? 1 : 0, b.get<bool>() ? 1 : 0);
    }
    if (a == b) {
        return;
    }
    difference.a = a.is_null() ? "" : text_of(key, a);
    difference.b = b.is_null() ? "" : text_of(key, b);
    out.push_back(std::move(difference));
}

// A recipe's values are text; those that read as JSON are numbers and booleans.
Json value_of(const RecipeKeys& recipe, const std::string& key) {
    const auto found = recipe.find(key);
    if (found == recipe.end()) {
        return nullptr;
    }
    const Json value = parse_json<Json>(found->second);
    return value.is_number() || value.is_boolean() ? value : Json(found->second);
}

void add_recipe_keys(const RecipeKeys& a, const RecipeKeys& b, std::vector<Difference>& out) {
    if (a.empty() || b.empty()) {
        return;
    }
    const auto is_there = [&](std::string_view key) {
        return std::ranges::find(out, key, &Difference::key) != out.end();
    };
    std::vector<Difference> added;
    for (const DifferingKey& differing : differing_keys({a, b})) {
        if (!is_there(differing.key) && !is_there(row_of(differing.key).same_as)) {
            add_fact(differing.key, value_of(a, differing.key), value_of(b, differing.key), added);
        }
    }
    std::ranges::move(added, std::back_inserter(out));
}

}  // namespace

double growth_of(double a, double b) {
    constexpr double kMost = 9;
    if (a == b) {
        return 0;
    }
    if (a <= 0 || b <= 0) {
        return b > a ? kMost : -kMost;
    }
    return std::clamp(std::log(b / a), -kMost, kMost);
}

bool alike(double a, double b, double tolerance) {
    return a == b || std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

std::vector<Difference> differing_facts(const RunRecords& a, const RunRecords& b) {
    const RunFacts& facts_a = a.ranks.front().facts;
    const RunFacts& facts_b = b.ranks.front().facts;
    const Flat flat_a = flat_facts(facts_a);
    const Flat flat_b = flat_facts(facts_b);
    std::set<std::string> keys;
    for (const auto* const flat : {&flat_a, &flat_b}) {
        for (const auto& [key, value] : *flat) {
            keys.insert(key);
        }
    }
    std::vector<Difference> out;
    for (const std::string& key : keys) {
        const auto in_a = flat_a.find(key);
        const auto in_b = flat_b.find(key);
        const bool both = in_a != flat_a.end() && in_b != flat_b.end();
        if (both || (facts_a.writer == facts_b.writer && may_lack(key))) {
            add_fact(key, in_a == flat_a.end() ? Json() : in_a->second, in_b == flat_b.end() ? Json() : in_b->second,
                     out);
        }
    }
    add_recipe_keys(a.recipe, b.recipe, out);
    return out;
}

}  // namespace stoker
