// The plan as JSON, and its differences in words.
#include "stoker/pack/plan.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kSourceKeys = {"format", "samples", "bytes", "keys"};
constexpr std::array kOptionKeys = {"codec", "resize_shorter", "quality", "shard_size"};

// "--shard-size 256MiB", "no --quality".
std::string option_text(std::string name, const Json& value) {
    std::ranges::replace(name, '_', '-');
    if (value.is_null() || value == 0) {
        return "no --" + name;
    }
    if (value.is_string()) {
        return fmt::format("--{} {}", name, value.get<std::string>());
    }
    if (name == "shard-size" && value.is_number_integer()) {
        return fmt::format("--{} {}", name, byte_size_text(value.get<std::int64_t>()));
    }
    return fmt::format("--{} {}", name, value.dump());
}

}  // namespace

// The source goes by its keys and size, not by its path, which differs from machine to machine.
Json plan_of(const Source& source, const PackOptions& options, bool shards) {
    std::uint64_t keys = 0;
    for (std::int64_t i = 0; i < source.size(); ++i) {
        keys = hash_text(source.key(i), keys);
    }
    Json plan = {{"format", source.format()},
                 {"samples", source.size()},
                 {"bytes", source.bytes()},
                 {"keys", fmt::format("{:016x}", keys)},
                 {"codec", pack_codec_name(options.recode.codec)},
                 {"resize_shorter", options.recode.resize_shorter},
                 {"quality", options.recode.quality}};
    if (shards) {
        plan["shard_size"] = options.shard_size;
    }
    return plan;
}

void check_plan(const std::string& directory, const std::string& origin, const Json& wanted, const std::string& done,
                const std::string& hint) {
    const Json found = Json::parse(origin).value("plan", Json());
    if (!found.is_object()) {
        throw InvalidArgument({.where = directory,
                               .expected = "a data set that `stoker pack` wrote",
                               .got = "one of another program",
                               .hint = "name another target"});
    }
    const auto value = [](const Json& plan, const char* key) { return plan.value(key, Json()); };
    const auto differs = [&](const char* key) { return value(found, key) != value(wanted, key); };
    std::vector<std::string> expected;
    std::vector<std::string> got;
    for (const char* key : kOptionKeys) {
        if (differs(key)) {
            expected.push_back(option_text(key, value(found, key)));
            got.push_back(option_text(key, value(wanted, key)));
        }
    }
    if (std::ranges::any_of(kSourceKeys, differs)) {
        expected.emplace_back("the same source");
        got.emplace_back("another source, or one that has changed since");
    }
    if (!expected.empty()) {
        throw InvalidArgument(
            {.where = directory,
             .expected = fmt::format("{}, as the data set was {} with", fmt::join(expected, " and "), done),
             .got = fmt::format("{}", fmt::join(got, " and ")),
             .hint = hint});
    }
}

}  // namespace stoker
