// The .npy reader on files written byte by byte here, as NumPy writes them, and on thousands of damaged ones.
#include "stoker/formats/arrays/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/arrays/npy_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"

namespace stoker::npy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::little_endian;
using testing::npy;
using testing::npy_of_dict;

template <typename Kind>
std::string error_of(const std::string& file) {
    try {
        parse_npy(as_bytes(file));
    } catch (const Kind& error) {
        return error.what();
    }
    return "parsed";
}

TEST(Npy, EveryType) {
    struct Case {
        const char* descr;
        ArrayType type;
    };
    const Case cases[] = {
        {"|b1", {ArrayKind::boolean, 1, false}},          {"|i1", {ArrayKind::signed_integer, 1, false}},
        {"|u1", {ArrayKind::unsigned_integer, 1, false}}, {"<i2", {ArrayKind::signed_integer, 2, false}},
        {">u2", {ArrayKind::unsigned_integer, 2, true}},  {"=i4", {ArrayKind::signed_integer, 4, false}},
        {"<u8", {ArrayKind::unsigned_integer, 8, false}}, {">i8", {ArrayKind::signed_integer, 8, true}},
        {"<f2", {ArrayKind::floating, 2, false}},         {">f4", {ArrayKind::floating, 4, true}},
        {"<f8", {ArrayKind::floating, 8, false}},         {">u1", {ArrayKind::unsigned_integer, 1, false}}};
    for (const Case& one : cases) {
        const std::string elements(6 * static_cast<std::size_t>(one.type.item_size), 'e');
        const std::string file = npy(one.descr, "(2, 3)", elements);
        const ArrayView view = parse_npy(as_bytes(file));
        EXPECT_EQ(view.type, one.type) << one.descr;
        EXPECT_EQ(view.shape, (Shape{2, 3}));
        EXPECT_EQ(view.bytes.size(), elements.size());
        EXPECT_EQ(view.bytes.data(), as_bytes(file).data() + file.size() - elements.size());
        EXPECT_EQ(view.offset, file.size() - elements.size());
        EXPECT_EQ(view.file, nullptr);
        EXPECT_TRUE(view.name.empty());
    }
}

TEST(Npy, VersionsOrdersAndShapes) {
    for (const int major : {1, 2, 3}) {
        for (const bool fortran : {false, true}) {
            const std::string file = npy("|u1", "(2, 3)", "abcdef", fortran, major);
            EXPECT_EQ(parse_npy(as_bytes(file)).fortran, fortran);
            EXPECT_EQ(parse_npy(as_bytes(file)).bytes.size(), 6U);
        }
    }
    EXPECT_EQ(parse_npy(as_bytes(npy("|u1", "()", "a"))).shape, Shape{});
    EXPECT_EQ(parse_npy(as_bytes(npy("|u1", "(4,)", "abcd"))).shape, Shape{4});
    EXPECT_EQ(parse_npy(as_bytes(npy("|u1", "(2L, 1L)", "ab"))).shape, (Shape{2, 1}));  // Python 2
    EXPECT_EQ(parse_npy(as_bytes(npy("<f8", "(0, 7)", ""))).shape, (Shape{0, 7}));
}

TEST(Npy, AnyOrderOfKeysAndQuotes) {
    const std::string file = npy_of_dict(R"({"shape":(2,1),"fortran_order":False , 'descr': "<i2"})", "abcd");
    const ArrayView view = parse_npy(as_bytes(file));
    EXPECT_EQ(view.shape, (Shape{2, 1}));
    EXPECT_EQ(integer_at(view, 1), 'c' | 'd' << 8);
}

TEST(Npy, RefusesInvalidHeaders) {
    const char* dicts[] = {"",
                           "{}",
                           "{'descr': '|u1', 'fortran_order': False, }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), } x",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'shape': (1,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
                           "{'descr': '|u1' 'fortran_order': False, 'shape': (1,), }",
                           "{'descr': '|u1, 'fortran_order': False, 'shape': (1,), }",
                           "{'descr': u1, 'fortran_order': False, 'shape': (1,), }",
                           "{'descr': '|u1', 'fortran_order': 0, 'shape': (1,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (1.0,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': [1], }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (__import__('os'),), }"};
    for (const char* dict : dicts) {
        EXPECT_THAT(error_of<DataError>(npy_of_dict(dict, "a")), HasSubstr("[npy")) << dict;
    }
    std::string many = "{'descr': '|u1', 'fortran_order': False, 'shape': (";
    for (int i = 0; i < 65; ++i) {
        many += "1, ";
    }
    EXPECT_THAT(error_of<DataError>(npy_of_dict(many + "), }", "a")), HasSubstr("at most 64 dimensions"));
}

TEST(Npy, RefusesSizesThatDoNotFit) {
    const std::string good = npy("<i4", "(3,)", std::string(12, 'x'));
    EXPECT_THAT(error_of<DataError>(good.substr(0, good.size() - 1)), HasSubstr("expected 12 bytes for int32 of (3)"));
    EXPECT_THAT(error_of<DataError>(good + "y"), HasSubstr("got 13"));
    EXPECT_THAT(error_of<DataError>(npy("<i4", "(4611686018427387904, 4)", "")), HasSubstr("2^63"));
    EXPECT_THAT(error_of<DataError>("\x93NUMPX" + good.substr(6)), HasSubstr("magic number"));
    EXPECT_THAT(error_of<DataError>(""), HasSubstr("magic number"));
    for (std::size_t length = 0; length < good.size(); ++length) {
        EXPECT_NE(error_of<DataError>(good.substr(0, length)), "parsed") << length;
    }
    std::string longer = good;
    longer[9] = 0x7F;
    EXPECT_THAT(error_of<DataError>(longer), HasSubstr("a header within the file"));
}

TEST(Npy, NamesUnsupportedTypes) {
    EXPECT_THAT(error_of<Unsupported>(npy("|O", "(2,)", "")), HasSubstr("pickles"));
    for (const char* descr : {"<c8", "<M8[ns]", "|V3", "<f16", "<U4", "|S4", "<i3", "|f1", "<b2", "|i", "i4", "<i4x"}) {
        EXPECT_THAT(error_of<Unsupported>(npy(descr, "(2,)", "")), HasSubstr(std::string(descr))) << descr;
    }
    EXPECT_THAT(error_of<Unsupported>(
                    npy_of_dict("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "abcd")),
                HasSubstr("records of several fields"));
    std::string newer = npy("|u1", "(1,)", "a");
    newer[6] = 4;
    EXPECT_THAT(error_of<Unsupported>(newer), HasSubstr("got 4.0"));
    newer[6] = 1;
    newer[7] = 1;
    EXPECT_THAT(error_of<Unsupported>(newer), HasSubstr("got 1.1"));
}

std::string utf32(std::u32string_view text, std::size_t letters, bool big_endian = false) {
    std::string out;
    for (std::size_t i = 0; i < letters; ++i) {
        std::string one = little_endian(i < text.size() ? text[i] : 0, 4);
        out += big_endian ? std::string(one.rbegin(), one.rend()) : one;
    }
    return out;
}

TEST(NpyText, StrAndBytes) {
    const std::u32string_view words[] = {U"cat", U"", U"z\u00e4\u20ac\U0001F525"};
    for (const bool big : {false, true}) {
        std::string elements;
        for (const auto word : words) {
            elements += utf32(word, 4, big);
        }
        EXPECT_THAT(parse_npy_text(as_bytes(npy(big ? ">U4" : "<U4", "(3,)", elements))),
                    ElementsAre("cat", "", "z\u00e4\u20ac\U0001F525"));
    }
    const std::string bytes("dog\0\0a\0b\0\0", 10);
    EXPECT_THAT(parse_npy_text(as_bytes(npy("|S5", "(2,)", bytes))), ElementsAre("dog", std::string("a\0b", 3)));
    EXPECT_THAT(parse_npy_text(as_bytes(npy("<U3", "(0,)", ""))), ElementsAre());
}

TEST(NpyText, Refuses) {
    const auto text_error = [](const std::string& file) -> std::string {
        try {
            parse_npy_text(as_bytes(file));
        } catch (const Error& error) {
            return error.what();
        }
        return "parsed";
    };
    EXPECT_THAT(text_error(npy("<i4", "(1,)", "abcd")), HasSubstr("text"));
    EXPECT_THAT(text_error(npy("<U0", "(4611686018427387904,)", "")), HasSubstr("text"));
    EXPECT_THAT(text_error(npy("|S2147483648", "(0,)", "")), HasSubstr("text"));
    EXPECT_THAT(text_error(npy("|S4", "(1, 1)", "abcd")), HasSubstr("one dimension"));
    EXPECT_THAT(text_error(npy("|S4", "(2,)", "abcd")), HasSubstr("got"));
    EXPECT_THAT(text_error(npy("|S4", "(9223372036854775807,)", "abcd")), HasSubstr("got"));
    EXPECT_THAT(text_error(npy("|S4", "(1,)", "abcde")), HasSubstr("expected 4 bytes"));
    for (const char32_t code : {0xD800U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU}) {
        EXPECT_THAT(text_error(npy("<U1", "(1,)", little_endian(code, 4))), HasSubstr("Unicode"));
    }
}

// Damaged files throw DataError or Unsupported, or give an array that fits the bytes.
TEST(Npy, DamagedFiles) {
    const std::string good[] = {npy("<i4", "(3, 2)", std::string(24, 'x')), npy("<U4", "(2,)", std::string(32, '\0')),
                                npy("|u1", "(2, 2, 2)", "abcdefgh", true, 2)};
    Rng rng(RngKey{.seed = 7});
    int read = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string file = good[round % 3];
        for (int change = 0; change < 1 + round % 3; ++change) {
            file[rng.below(static_cast<std::uint32_t>(file.size()))] = static_cast<char>(rng.below(256));
        }
        try {
            const ArrayView view = parse_npy(as_bytes(file));
            EXPECT_EQ(view.bytes.size(), checked_array_bytes(view.type, view.shape));
            EXPECT_LE(view.bytes.size(), file.size());
            ++read;
        } catch (const DataError&) {
        } catch (const Unsupported&) {
        }
        try {
            EXPECT_LE(parse_npy_text(as_bytes(file)).size(), file.size());
        } catch (const DataError&) {
        } catch (const Unsupported&) {
        }
    }
    EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace stoker::npy_test
