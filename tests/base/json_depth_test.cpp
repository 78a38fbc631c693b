// How deep JSON nests, and the documents that are too deep to be parsed.
#include "stoker/base/json_depth.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stoker/base/memory_limit.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using nlohmann::json;

std::string nested(std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
}

TEST(JsonDepth, CountsBracketsOutsideOfStrings) {
    EXPECT_EQ(json_depth(""), 0);
    EXPECT_EQ(json_depth("17"), 0);
    EXPECT_EQ(json_depth(R"({"a": [1, {"b": []}], "c": {}})"), 4);
    EXPECT_EQ(json_depth(R"(["[[[[", "\"[[[", "\\", [1]])"), 2);
    EXPECT_EQ(json_depth(nested(200'000)), 200'000);
    EXPECT_EQ(json_depth(std::string(300, '[')), 300) << "as deep as a parser gets";
}

TEST(JsonDepth, ParsesUpToTheLimit) {
    EXPECT_EQ(parse_json<json>(R"({"a": 1})").at("a"), 1);
    EXPECT_TRUE(parse_json<json>(nested(kMaxJsonDepth)).is_array());
    EXPECT_TRUE(parse_json<json>(nested(kMaxJsonDepth + 1)).is_discarded());
    EXPECT_TRUE(parse_json<nlohmann::ordered_json>(nested(200'000)).is_discarded());
    EXPECT_TRUE(parse_json<json>("{").is_discarded());
    EXPECT_TRUE(parse_json<json>("").is_discarded());
}

TEST(JsonDepth, NumbersThatAreNotFiniteAreNull) {
    const json value =
        parse_json<json>(R"({"a": NaN, "b": [1, -Infinity, Infinity], "c": "NaN \" -Infinity", "d": -2})");
    EXPECT_EQ(value, json::parse(R"({"a": null, "b": [1, null, null], "c": "NaN \" -Infinity", "d": -2})"));
    for (const char* const text : {"{\"a\": NaN", "Nan", "[NaN NaN]", "[+Infinity]", "\"NaN"}) {
        EXPECT_TRUE(parse_json<json>(text).is_discarded()) << text;
    }
}

TEST(JsonDepth, ATextThatTakesTooMuchMemoryIsRefused) {
    const std::string text = "[" + std::string(4'000'000, ' ') + "]";
    EXPECT_TRUE(parse_json<json>(text).is_array());
    const testing::MemoryRoom room(100 * testing::kMiB);
    EXPECT_THROW(parse_json<json>(text), MemoryError);
}

}  // namespace
}  // namespace stoker
