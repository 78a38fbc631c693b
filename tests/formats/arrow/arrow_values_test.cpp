// Types and values of the C data interface, from arrays that are made by hand: also those that no library makes.
#include "stoker/formats/arrow/arrow_values.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <list>
#include <numeric>
#include <string>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// Arrays and schemas whose memory is the test's.
class ArrowValues : public testing::Test {
  protected:
    template <typename Number>
    const void* keep(std::vector<Number> values) {
        auto& bytes = memory_.emplace_back(values.size() * sizeof(Number));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes.data();
    }

    ArrowArray* array(std::int64_t length, std::vector<const void*> buffers, std::vector<ArrowArray*> children = {}) {
        auto& kept = buffers_.emplace_back(std::move(buffers));
        auto& below = children_.emplace_back(std::move(children));
        arrays_.push_back({.length = length,
                           .null_count = -1,
                           .offset = 0,
                           .n_buffers = std::ssize(kept),
                           .n_children = std::ssize(below),
                           .buffers = kept.data(),
                           .children = below.data(),
                           .dictionary = nullptr,
                           .release = nullptr,
                           .private_data = nullptr});
        return &arrays_.back();
    }

    ArrowSchema* schema(const char* format, std::vector<ArrowSchema*> children = {}, const char* name = "x") {
        auto& below = schema_children_.emplace_back(std::move(children));
        schemas_.push_back({.format = format,
                            .name = name,
                            .metadata = nullptr,
                            .flags = 0,
                            .n_children = std::ssize(below),
                            .children = below.data(),
                            .dictionary = nullptr,
                            .release = nullptr,
                            .private_data = nullptr});
        return &schemas_.back();
    }

    ArrowType type(const char* format, std::vector<ArrowSchema*> children = {}) {
        return read_arrow_type(*schema(format, std::move(children)));
    }

    static std::string text(std::span<const std::byte> bytes) {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    std::list<std::vector<std::byte>> memory_;
    std::list<std::vector<const void*>> buffers_;
    std::list<std::vector<ArrowArray*>> children_;
    std::list<ArrowArray> arrays_;
    std::list<std::vector<ArrowSchema*>> schema_children_;
    std::list<ArrowSchema> schemas_;
    Buffer storage_;
};

TEST_F(ArrowValues, TypesOfFormats) {
    EXPECT_EQ(type("s").element, (ArrayType{.kind = ArrayKind::signed_integer, .item_size = 2}));
    EXPECT_EQ(type("L").element, (ArrayType{.kind = ArrayKind::unsigned_integer, .item_size = 8}));
    EXPECT_EQ(type("e").element, (ArrayType{.kind = ArrayKind::floating, .item_size = 2}));
    EXPECT_EQ(type("tsu:UTC").element.item_size, 8);
    EXPECT_EQ(type("tdD").element.item_size, 4);
    EXPECT_EQ(type("d:9,2,32").scale, 2);
    EXPECT_EQ(type("d:60,2,256").kind, ArrowKind::other);
    EXPECT_EQ(type("w:7").count, 7);
    EXPECT_EQ(type("+w:3", {schema("f")}).kind, ArrowKind::fixed_list);
    EXPECT_EQ(type("+m").kind, ArrowKind::other);
    EXPECT_THROW(type("w:-7"), DataError);
    EXPECT_THROW(type("+l"), DataError);
}

TEST_F(ArrowValues, DeepTypesAreRefused) {
    ArrowSchema* deep = schema("i");
    for (int i = 0; i < 20; ++i) {
        deep = schema("+l", {deep});
    }
    EXPECT_THROW(read_arrow_type(*deep), DataError);
}

TEST_F(ArrowValues, MetadataHasKeysAndValues) {
    std::string packed;
    const auto add = [&](const std::string& part) {
        const auto size = static_cast<std::int32_t>(part.size());
        packed.append(reinterpret_cast<const char*>(&size), sizeof size).append(part);
    };
    const std::int32_t pairs = 2;
    packed.append(reinterpret_cast<const char*>(&pairs), sizeof pairs);
    for (const char* part : {"one", "1", "huggingface", "{}"}) {
        add(part);
    }
    ArrowSchema* with = schema("+s");
    with->metadata = packed.data();
    EXPECT_EQ(arrow_metadata(*with, "huggingface"), "{}");
    EXPECT_EQ(arrow_metadata(*with, "two"), "");
}

TEST_F(ArrowValues, TextOfRowsAfterAnOffset) {
    const ArrowType of = type("u");
    ArrowArray* values = array(2, {nullptr, keep<std::int32_t>({0, 1, 1, 4}), "abcd"});
    values->offset = 1;
    EXPECT_EQ(text(ArrowCell{&of, values, 0}.bytes()), "");
    EXPECT_EQ(text(ArrowCell{&of, values, 1}.bytes()), "bcd");
}

TEST_F(ArrowValues, OffsetsThatShrinkOrLieOutsideAreDamage) {
    const ArrowType of = type("z");
    const ArrowArray* shrinking = array(2, {nullptr, keep<std::int32_t>({0, 3, 2}), "abcd"});
    EXPECT_THROW((ArrowCell{&of, shrinking, 1}.bytes()), DataError);
    const ArrowArray* outside = array(2, {nullptr, keep<std::int32_t>({0, 100, 4}), "abcd"});
    EXPECT_THROW((ArrowCell{&of, outside, 0}.bytes()), DataError);
    const ArrowArray* negative = array(1, {nullptr, keep<std::int32_t>({-2, 2}), "abcd"});
    EXPECT_THROW((ArrowCell{&of, negative, 0}.bytes()), DataError);
}

TEST_F(ArrowValues, TextInPieces) {
    const ArrowType of = type("vu");
    std::array<std::byte, 32> views{};
    const std::int32_t small = 3;
    std::memcpy(views.data(), &small, 4);
    std::memcpy(views.data() + 4, "abc", 3);
    const std::int32_t large[] = {14, 0, 0, 1};  // size, prefix, piece, offset
    std::memcpy(views.data() + 16, large, sizeof large);
    ArrowArray* values = array(2, {nullptr, views.data(), "-a text of many", keep<std::int64_t>({15})});
    EXPECT_EQ(text(ArrowCell{&of, values, 0}.bytes()), "abc");
    EXPECT_EQ(text(ArrowCell{&of, values, 1}.bytes()), "a text of many");
    values->buffers[3] = keep<std::int64_t>({14});
    EXPECT_THROW((ArrowCell{&of, values, 1}.bytes()), DataError);
}

TEST_F(ArrowValues, DictionaryEntriesAreChecked) {
    ArrowSchema* indices = schema("c");
    indices->dictionary = schema("u");
    const ArrowType of = read_arrow_type(*indices);
    ArrowArray* values = array(3, {nullptr, keep<std::int8_t>({1, 2, -1})});
    values->dictionary = array(2, {nullptr, keep<std::int32_t>({0, 1, 3}), "abb"});
    EXPECT_EQ(text(ArrowCell{&of, values, 0}.bytes()), "bb");
    EXPECT_THROW((ArrowCell{&of, values, 1}.bytes()), DataError);
    EXPECT_THROW((ArrowCell{&of, values, 2}.bytes()), DataError);
}

TEST_F(ArrowValues, NestedLists) {
    const ArrowType of = type("+l", {schema("+w:2", {schema("i")})});
    ArrowArray* numbers = array(8, {nullptr, keep<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7})});
    ArrowArray* pairs = array(4, {nullptr}, {numbers});
    const ArrowArray* lists = array(2, {nullptr, keep<std::int32_t>({0, 1, 4})}, {pairs});
    const ArrayView second = ArrowCell{&of, lists, 1}.numbers(storage_);
    EXPECT_EQ(second.shape, (Shape{3, 2}));
    EXPECT_EQ(integer_at(second, 0), 2);
    EXPECT_EQ(integer_at(second, 5), 7);
}

TEST_F(ArrowValues, ListsOutsideTheirValuesAreDamage) {
    const ArrowType of = type("+l", {schema("i")});
    ArrowArray* numbers = array(2, {nullptr, keep<std::int32_t>({0, 1})});
    const ArrowArray* lists = array(1, {nullptr, keep<std::int32_t>({0, 3})}, {numbers});
    EXPECT_THROW((ArrowCell{&of, lists, 0}.numbers(storage_)), DataError);
    const ArrowType fixed = type("+w:3", {schema("i")});
    const ArrowArray* wide = array(1, {nullptr}, {numbers});
    EXPECT_THROW((ArrowCell{&fixed, wide, 0}.numbers(storage_)), DataError);
}

TEST_F(ArrowValues, ListsOfDifferentLengthsAreRefused) {
    const ArrowType of = type("+l", {schema("+l", {schema("i")})});
    ArrowArray* numbers = array(3, {nullptr, keep<std::int32_t>({0, 1, 2})});
    ArrowArray* inner = array(2, {nullptr, keep<std::int32_t>({0, 1, 3})}, {numbers});
    const ArrowArray* outer = array(1, {nullptr, keep<std::int32_t>({0, 2})}, {inner});
    EXPECT_THROW((ArrowCell{&of, outer, 0}.numbers(storage_)), DataError);
}

TEST_F(ArrowValues, NullsInListsAreRefused) {
    const ArrowType of = type("+l", {schema("i")});
    ArrowArray* numbers = array(2, {keep<std::uint8_t>({0b01}), keep<std::int32_t>({0, 1})});
    const ArrowArray* lists = array(2, {nullptr, keep<std::int32_t>({0, 1, 2})}, {numbers});
    EXPECT_EQ((ArrowCell{&of, lists, 0}.numbers(storage_).shape), Shape{1});
    EXPECT_THROW((ArrowCell{&of, lists, 1}.numbers(storage_)), DataError);
}

TEST_F(ArrowValues, BooleansAndDecimals) {
    const ArrowType flags = type("+l", {schema("b")});
    ArrowArray* bits = array(4, {nullptr, keep<std::uint8_t>({0b1010})});
    const ArrowArray* lists = array(1, {nullptr, keep<std::int32_t>({1, 4})}, {bits});
    const ArrayView booleans = ArrowCell{&flags, lists, 0}.numbers(storage_);
    EXPECT_EQ(booleans.type.kind, ArrayKind::boolean);
    EXPECT_EQ(integer_at(booleans, 0), 1);
    EXPECT_EQ(integer_at(booleans, 1), 0);
    EXPECT_EQ(integer_at(booleans, 2), 1);
    const ArrowType money = type("d:9,2,64");
    const ArrowArray* cents = array(1, {nullptr, keep<std::int64_t>({-1250})});
    const ArrayView one = ArrowCell{&money, cents, 0}.numbers(storage_);
    double value = 0;
    std::memcpy(&value, one.bytes.data(), sizeof value);
    EXPECT_EQ(value, -12.5);
}

TEST_F(ArrowValues, PermutedSidesEqualTheSlowWay) {
    const Shape sides{2, 3, 4};
    std::vector<std::int16_t> from(24);
    std::iota(from.begin(), from.end(), std::int16_t{0});
    std::vector<std::size_t> order{0, 1, 2};
    do {
        std::vector<std::int16_t> to(24);
        permute_sides(std::as_bytes(std::span(from)), sides, order, 2, std::as_writable_bytes(std::span(to)));
        std::array<std::int64_t, 3> at{};
        std::size_t next = 0;
        for (at[order[0]] = 0; at[order[0]] < sides[order[0]]; ++at[order[0]]) {
            for (at[order[1]] = 0; at[order[1]] < sides[order[1]]; ++at[order[1]]) {
                for (at[order[2]] = 0; at[order[2]] < sides[order[2]]; ++at[order[2]]) {
                    EXPECT_EQ(to[next++], (at[0] * 3 + at[1]) * 4 + at[2]);
                }
            }
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace stoker
