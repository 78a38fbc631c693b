// tf.train.Example's wire format: every way to store a list, and messages that no writer makes. The values are those of
// protobuf 7.36.
#include "stoker/formats/tfrecord/tf_example.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/tfrecord/tfrecord_support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using namespace stoker::testing;

template <typename Number>
std::vector<Number> values(const std::string& message, TfKind kind) {
    Buffer out;
    const std::int64_t count = copy_values(parse_tf_feature(as_bytes(message)), kind, out);
    std::vector<Number> found(static_cast<std::size_t>(count));
    EXPECT_EQ(out.size(), found.size() * sizeof(Number));
    std::ranges::copy(out.bytes(), std::as_writable_bytes(std::span(found)).begin());
    return found;
}

std::vector<std::int64_t> integers(const std::string& message) {
    return values<std::int64_t>(message, TfKind::integers);
}

std::vector<float> floats(const std::string& message) {
    return values<float>(message, TfKind::floats);
}

// The integers of the feature "a"; empty if there is none.
std::vector<std::int64_t> integers_in(const std::string& record) {
    const std::vector<std::string> names = {"a"};
    const auto found = find_tf_features(as_bytes(record), names);
    Buffer out;
    if (!found[0] || copy_values(*found[0], TfKind::integers, out) == 0) {
        return {};
    }
    std::vector<std::int64_t> numbers(out.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), out.data(), out.size());
    return numbers;
}

TEST(TfExample, ListsPackedAndNot) {
    for (const bool packed : {true, false}) {
        EXPECT_THAT(integers(tf_integers({-5, 7, INT64_MIN, INT64_MAX, 0}, packed)),
                    ElementsAre(-5, 7, INT64_MIN, INT64_MAX, 0));
        EXPECT_THAT(floats(tf_floats({1.5F, -0.25F}, packed)), ElementsAre(1.5F, -0.25F));
        EXPECT_THAT(integers(tf_integers({}, packed)), ElementsAre());
    }
    const std::string mixed = tf_field(3, "\x08\x05" + tf_field(1, "\x06\x07"));
    EXPECT_THAT(integers(mixed), ElementsAre(5, 6, 7));
}

TEST(TfExample, ListsOfOneKindAreJoinedAndTheLastKindCounts) {
    EXPECT_THAT(integers(tf_integers({1}) + tf_integers({2, 3})), ElementsAre(1, 2, 3));
    EXPECT_THAT(integers(tf_floats({1.5F}) + tf_integers({2})), ElementsAre(2));
    EXPECT_THAT(integers(tf_integers({1}) + tf_floats({1.5F}) + tf_integers({2})), ElementsAre(2));
    EXPECT_THAT(integers(tf_integers({9}) + "\x28\x01"), ElementsAre(9));  // an unknown field
    EXPECT_THAT(integers(""), ElementsAre());
}

TEST(TfExample, TheLastOfTwoNamesCounts) {
    EXPECT_THAT(integers_in(tf_example({{"a", tf_integers({1})}, {"b", ""}, {"a", tf_integers({2})}})), ElementsAre(2));
    EXPECT_THAT(integers_in(tf_example({{"a", tf_integers({1})}}) + tf_example({{"a", tf_integers({3})}})),
                ElementsAre(3));
    const std::string value_first = tf_field(1, tf_field(1, tf_field(2, tf_integers({4})) + tf_field(1, "a")));
    EXPECT_THAT(integers_in(value_first), ElementsAre(4));
    EXPECT_THAT(integers_in(tf_field(1, tf_field(1, tf_field(1, "a")))), ElementsAre());
    EXPECT_THAT(integers_in("\x18\x05" + tf_example({{"a", tf_integers({9})}})), ElementsAre(9));
}

TEST(TfExample, ANameMayBeAskedForTwice) {
    const std::string record = tf_example({{"a", tf_integers({1})}});
    const std::vector<std::string> names = {"a", "b", "a"};
    const auto found = find_tf_features(as_bytes(record), names);
    EXPECT_TRUE(found[0] && !found[1] && found[2]);
}

TEST(TfExample, SingleValues) {
    const auto integer = [](const std::string& message) { return single_integer(parse_tf_feature(as_bytes(message))); };
    EXPECT_EQ(integer(tf_integers({-3})), -3);
    EXPECT_EQ(integer(tf_integers({1, 2})), std::nullopt);
    EXPECT_EQ(integer(tf_integers({})), std::nullopt);
    EXPECT_EQ(integer(tf_floats({1})), std::nullopt);
    EXPECT_EQ(integer(tf_field(3, tf_field(1, "\xff"))), std::nullopt);  // damaged
    const std::string text = tf_texts({"text"});
    EXPECT_EQ(as_text(single_bytes(parse_tf_feature(as_bytes(text)))), "text");
    for (const std::string& other : {tf_texts({}), tf_texts({"a", "b"}), tf_integers({1}), std::string()}) {
        EXPECT_THROW(single_bytes(parse_tf_feature(as_bytes(other))), DataError);
    }
}

TEST(TfExample, DamageIsRefused) {
    const std::string good = tf_sample("image", 3);
    for (std::size_t size = 1; size < good.size(); ++size) {
        EXPECT_THROW(all_tf_features(as_bytes(good).first(size)), DataError) << size;
    }
    const std::string far = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    for (const std::string& bad : {std::string("\x0b"), std::string("\x00\x01", 2), std::string(11, '\xff'), far,
                                   tf_example({{std::string(5000, 'n'), ""}}),
                                   tf_field(1, tf_field(1, tf_field(1, "a") + tf_field(2, "") + tf_field(2, "")))}) {
        EXPECT_THROW(all_tf_features(as_bytes(bad)), DataError);
    }
    EXPECT_THROW(floats(tf_field(2, tf_field(1, "abc"))), DataError);
    EXPECT_THROW(integers(tf_field(3, tf_field(1, "\x80"))), DataError);
    EXPECT_THROW(integers(tf_floats({1})), DataError);
}

TEST(TfExample, SequencesAreRecognised) {
    EXPECT_FALSE(is_sequence_example(as_bytes(tf_sample("", 0))));
    const std::string sequence = tf_example({}) + tf_field(2, tf_field(1, tf_field(1, "steps")));
    EXPECT_TRUE(is_sequence_example(as_bytes(sequence)));
}

}  // namespace
}  // namespace stoker
