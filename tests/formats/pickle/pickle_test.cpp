// Pickles written opcode by opcode: each kind of value, each way to share one, and refused opcodes and names. The tests
// in tests/python read pickles that Python wrote.
#include "stoker/formats/pickle/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/pickle/pickle_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/rng.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = PickleValue::Kind;

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message of the error that reading throws, "" for none; other exceptions fail the test.
std::string refusal(const std::string& pickle) {
    Pickle reader;
    try {
        reader.read(as_bytes(pickle));
        return "";
    } catch (const DataError& error) {
        EXPECT_TRUE(error.place().offset.has_value()) << error.what();
        return error.what();
    } catch (const Unsupported& error) {
        return error.what();
    }
}

TEST(Pickle, Integers) {
    Pickle pickle;
    const auto read = [&](const std::string& code) { return pickle.read(as_bytes(code + ".")).integer(); };
    EXPECT_EQ(read("K\xff"), 255);
    EXPECT_EQ(read("M\x01\x02"), 513);
    EXPECT_EQ(read("J\xfe\xff\xff\xff"), -2);
    EXPECT_EQ(read(std::string("\x8a\0", 2)), 0);
    EXPECT_EQ(read("\x8a\x01\xff"), -1);
    EXPECT_EQ(read(std::string("\x8a\x02\xff\0", 4)), 255);
    EXPECT_EQ(read(pickled_int(std::numeric_limits<std::int64_t>::min())), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(read(std::string("\x8b\x02\0\0\0\x00\x80", 7)), -32768);
    EXPECT_EQ(read("I-17\n"), -17);
    EXPECT_EQ(read("L9223372036854775807L\n"), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(read("\x88"), 1);
    EXPECT_EQ(pickle.read(as_bytes("I01\n.")).kind(), Kind::boolean);
    EXPECT_EQ(pickle.read(as_bytes("I1\n.")).kind(), Kind::integer);
    EXPECT_THAT(refusal("\x8a\x09" + std::string(9, '\1') + "."), HasSubstr("an integer of 9 bytes at byte 0"));
    EXPECT_THAT(refusal("L9223372036854775808L\n."), HasSubstr("more than 64 bits"));
    EXPECT_THAT(refusal("I1x\n."), HasSubstr("decimal"));
    EXPECT_THAT(refusal(std::string("\x8b\xff\xff\xff\xff.", 6)), HasSubstr("a non-negative length"));
}

TEST(Pickle, FloatsAndNone) {
    Pickle pickle;
    EXPECT_EQ(pickle.read(as_bytes(std::string("G\x3f\xf8\0\0\0\0\0\0.", 10))).kind(), Kind::real);
    EXPECT_EQ(pickle.read(as_bytes(std::string("G\x3f\xf8\0\0\0\0\0\0.", 10))).real(), 1.5);
    EXPECT_EQ(pickle.read(as_bytes("F-2.5e3\n.")).kind(), Kind::real);
    EXPECT_EQ(pickle.read(as_bytes("F-2.5e3\n.")).real(), -2500);
    EXPECT_THROW(pickle.read(as_bytes("Ftwo\n.")), DataError);
    EXPECT_THROW(pickle.read(as_bytes("K\x02.")).real(), DataError);
    EXPECT_EQ(pickle.read(as_bytes("Fnan\n.")).kind(), Kind::real);
    EXPECT_EQ(pickle.read(as_bytes("N.")).kind(), Kind::none);
    EXPECT_THAT(refusal("F1.5"), HasSubstr("a line"));
    EXPECT_THAT(refusal("G1234567"), HasSubstr("8 more bytes"));
}

TEST(Pickle, TextsAndBytes) {
    Pickle pickle;
    const auto text = [&](const std::string& code) { return std::string(pickle.read(as_bytes(code + ".")).text()); };
    EXPECT_EQ(text("\x8c\x02hi"), "hi");
    EXPECT_EQ(text(std::string("\x8d\x02\0\0\0\0\0\0\0hi", 11)), "hi");
    EXPECT_EQ(text("Vh\\u00e9\xe9\\U0001F600\\n\n"), "h\u00e9\u00e9\U0001F600\\n");
    EXPECT_EQ(text("S'it\\'s \\x41\\n\\\\'\n"), "it's A\n\\");
    EXPECT_EQ(text("S\"plain\"\n"), "plain");
    EXPECT_EQ(text("U\x03xyz"), "xyz");
    EXPECT_EQ(text(std::string("T\x01\0\0\0x", 6)), "x");
    EXPECT_EQ(pickle.read(as_bytes("U\x03xyz.")).kind(), Kind::bytes);
    EXPECT_EQ(text_of(pickle.read(as_bytes("C\x02\xff\xfe.")).bytes()), "\xff\xfe");
    EXPECT_EQ(text_of(pickle.read(as_bytes(std::string("\x8e\x01\0\0\0\0\0\0\0z.", 11))).bytes()), "z");
    EXPECT_THROW(pickle.read(as_bytes("\x8c\x02hi.")).bytes(), DataError);
    for (const char* bad :
         {"S'open\n.", "Sbare\n.", "S'\\q'\n.", "S'\\x4'\n.", "V\\u12\n.", "V\\UFFFFFFFF\n.", "Vend"}) {
        EXPECT_NE(refusal(bad), "") << bad;
    }
    EXPECT_THAT(refusal(std::string("T\xff\xff\xff\xff.", 6)), HasSubstr("a non-negative length"));
}

TEST(Pickle, BytesAsLatin1) {
    const std::string encode = pickled_name("_codecs", "encode");
    Pickle pickle;
    const std::string umlaut = encode + pickled_text("a\u00e9\u00ff") + pickled_text("latin1") + "\x86R.";
    EXPECT_EQ(text_of(pickle.read(as_bytes(umlaut)).bytes()), "a\xe9\xff");
    const std::string plain = encode + pickled_text("abc") + pickled_text("latin1") + "\x86R.";
    EXPECT_EQ(reinterpret_cast<const char*>(pickle.read(as_bytes(plain)).bytes().data()),
              plain.data() + plain.find("abc"));
    EXPECT_NE(refusal(encode + pickled_text("\u20ac") + pickled_text("latin1") + "\x86R."), "");
    EXPECT_NE(refusal(encode + pickled_text("a\xc3") + pickled_text("latin1") + "\x86R."), "");
    EXPECT_THAT(refusal(encode + pickled_text("a") + pickled_text("rot13") + "\x86R."), HasSubstr("latin1"));
    // A text that is encoded a thousand times is encoded once.
    std::string often = "(" + encode + "q\1" + pickled_text(std::string(50, 'x') + "\u00e9") + "q\2";
    often += pickled_text("latin1") + std::string("q\3\x86R", 4);
    for (int i = 0; i < 1000; ++i) {
        often += "h\1h\2h\3\x86R";
    }
    often += "l.";
    const PickleValue all = pickle.read(as_bytes(often));
    ASSERT_EQ(all.size(), 1001u);
    EXPECT_EQ(all[0].bytes().data(), all[1000].bytes().data());
}

TEST(Pickle, BuiltInBytes) {
    Pickle pickle;
    for (const char* module : {"builtins", "__builtin__"}) {
        const std::string made = pickled_name(module, "bytearray");
        EXPECT_EQ(pickle.read(as_bytes(made + ")R.")).bytes().size(), 0u);
        EXPECT_EQ(text_of(pickle.read(as_bytes(made + pickled_bytes("ab") + "\x85R.")).bytes()), "ab");
        const std::string text = made + pickled_text("\u00e9") + pickled_text("latin-1") + "\x86R.";
        EXPECT_EQ(text_of(pickle.read(as_bytes(text)).bytes()), "\xe9");
    }
}

TEST(Pickle, ContainersOfEachOpcode) {
    Pickle pickle;
    const std::string code =
        "(]K\1a(K\2K\3e(K\4l)K\5\x85K\5K\6\x86K\5K\6\x87(K\7t}\x8c\1aK\x08s(\x8c\1bK\x09u(\x8c\1cK\x0at0"
        "(\x8c\1dK\x0b"
        "d(K\1K\2"
        "1t.";
    const PickleValue all = pickle.read(as_bytes(code));
    const auto integers = [](const PickleValue& list) {
        std::vector<std::int64_t> values;
        for (std::size_t i = 0; i < list.size(); ++i) {
            values.push_back(list[i].integer());
        }
        return values;
    };
    ASSERT_EQ(all.kind(), Kind::tuple);
    ASSERT_EQ(all.size(), 8u);
    EXPECT_EQ(all[0].kind(), Kind::list);
    EXPECT_THAT(integers(all[0]), ElementsAre(1, 2, 3));
    EXPECT_THAT(integers(all[1]), ElementsAre(4));
    EXPECT_EQ(all[2].describe(), "tuple of 0");
    EXPECT_THAT(integers(all[3]), ElementsAre(5));
    ASSERT_EQ(all[4].size(), 3u);
    EXPECT_THAT(integers(all[4][0]), ElementsAre(5, 6));
    EXPECT_EQ(all[4][2].integer(), 6);
    EXPECT_THAT(integers(all[5]), ElementsAre(7));
    EXPECT_EQ(all[6].find("a")->integer(), 8);
    EXPECT_EQ(all[6].find("b")->integer(), 9);
    EXPECT_EQ(all[7].describe(), "dict of 1");
    EXPECT_EQ(all[7].find("d")->integer(), 11);
}

TEST(Pickle, DictsByKey) {
    Pickle pickle;
    const std::string code =
        pickled_dict({pickled_text("a"), "K\1", "U\1b", "K\2", pickled_text("a"), "K\3", "K\x07", "N"});
    const std::string file = code + ".rest";  // bytes after the pickle are ignored
    const PickleValue dict = pickle.read(as_bytes(file));
    EXPECT_EQ(dict.size(), 4u);
    EXPECT_EQ(dict.find("a")->integer(), 3);
    EXPECT_EQ(dict.find("b")->integer(), 2);
    EXPECT_FALSE(dict.find("c").has_value());
    EXPECT_EQ(dict.key(3).integer(), 7);
    EXPECT_EQ(dict.describe(), "dict of 4");
    EXPECT_THROW(dict[4], DataError);
    EXPECT_THROW(dict.key(4), DataError);
    EXPECT_THROW(dict.integer(), DataError);
    EXPECT_THROW(dict[0].find("a"), DataError);
    EXPECT_THAT(refusal("}(K\1u."), HasSubstr("a value for each key"));
    EXPECT_EQ(pickle.read(as_bytes(pickled_name("collections", "OrderedDict") + ")R}b.")).size(), 0u);
}

// Lists that grow in turn are moved within the arena. Compared with vectors that grow the same way.
TEST(Pickle, ListsGrowInAnyOrder) {
    Rng rng({.seed = 3});
    for (int round = 0; round < 50; ++round) {
        std::vector<std::vector<std::int64_t>> expected(1 + rng.below(5));
        std::string code = "(";
        for (std::size_t i = 0; i < expected.size(); ++i) {
            code += std::string("]q") + static_cast<char>(i);
        }
        for (int step = 0; step < 60; ++step) {
            const auto at = static_cast<std::size_t>(rng.below(static_cast<std::uint32_t>(expected.size())));
            const auto count = static_cast<int>(rng.below(4));
            code += std::string("h") + static_cast<char>(at) + "(";
            for (int i = 0; i < count; ++i) {
                expected[at].push_back(step);
                code += std::string("K") + static_cast<char>(step);
            }
            code += "e0";
        }
        Pickle pickle;
        const std::string whole = code + "t.";
        const PickleValue all = pickle.read(as_bytes(whole));
        ASSERT_EQ(all.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(all[i].size(), expected[i].size());
            for (std::size_t j = 0; j < expected[i].size(); ++j) {
                ASSERT_EQ(all[i][j].integer(), expected[i][j]);
            }
        }
    }
}

TEST(Pickle, MemoSharesAndCloses) {
    Pickle pickle;
    const PickleValue loop = pickle.read(as_bytes("]q\5h\5a."));
    EXPECT_EQ(loop[0][0][0][0].size(), 1u);
    const std::string mentions = "(\x8c\1x\x94K\1\x94h" + std::string(1, '\0') + "g1\nt.";
    const PickleValue twice = pickle.read(as_bytes(mentions));
    EXPECT_EQ(twice[2].text(), "x");
    EXPECT_EQ(twice[3].integer(), 1);
    // Ten lists, each twice in the next: 2^10 paths, 11 nodes.
    std::string laughs = "]p0\n";
    for (int i = 0; i < 10; ++i) {
        laughs += "](h" + std::string(1, static_cast<char>(i)) + "h" + std::string(1, static_cast<char>(i)) + "eq" +
                  std::string(1, static_cast<char>(i + 1));
    }
    laughs += '.';
    PickleValue inner = pickle.read(as_bytes(laughs));
    for (int depth = 0; depth < 10; ++depth) {
        ASSERT_EQ(inner.size(), 2u);
        inner = inner[1];
    }
    EXPECT_EQ(inner.size(), 0u);
    EXPECT_THAT(refusal("N" + std::string("r\0\0\0\x40", 5) + "."), HasSubstr("memo"));
    EXPECT_THAT(refusal("Np-1\n."), HasSubstr("memo"));
    EXPECT_THAT(refusal("h\1."), HasSubstr("a memo index in use"));
    EXPECT_THAT(refusal("\x94."), HasSubstr("a value on the stack"));
}

TEST(Pickle, NestingCostsNoStack) {
    Pickle pickle;
    const std::string deep = std::string(200'000, '(') + std::string(200'000, 't') + ".";
    EXPECT_EQ(pickle.read(as_bytes(deep)).size(), 1u);
}

TEST(Pickle, NumpyArrays) {
    Pickle pickle;
    for (const auto& make : {pickled_array, pickled_buffer}) {
        const std::string code = make(pickled_dtype("i2", ">"), {2, 3}, "abcdefghijkl", true) + ".";
        const PickleValue value = pickle.read(as_bytes(code));
        const ArrayView array = value.array();
        EXPECT_EQ(value.kind(), Kind::array);
        EXPECT_EQ(array.type, (ArrayType{.kind = ArrayKind::signed_integer, .item_size = 2, .big_endian = true}));
        EXPECT_EQ(array.shape, (Shape{2, 3}));
        EXPECT_TRUE(array.fortran);
        EXPECT_EQ(text_of(array.bytes), "abcdefghijkl");
        EXPECT_EQ(reinterpret_cast<const char*>(array.bytes.data()), code.data() + code.find("abcdef"));  // no copy
        EXPECT_EQ(value.describe(), "int16 (big-endian) array of (2, 3)");
        EXPECT_THROW(value.integer(), DataError);
        EXPECT_EQ(pickle.read(as_bytes(make(pickled_dtype("u1", "|"), {}, "\x07", false) + ".")).integer(), 7);
        EXPECT_EQ(pickle.read(as_bytes(make(pickled_dtype("f8", "<"), {0, 5}, "", false) + ".")).array().shape,
                  (Shape{0, 5}));
        EXPECT_THAT(refusal(make(pickled_dtype("i2", "<"), {2, 3}, "abcdefghijk", false) + "."),
                    AllOf(HasSubstr("12 bytes of int16 (2, 3)"), HasSubstr("11")));
        EXPECT_NE(refusal(make(pickled_dtype("u1", "|"), {-1, -1}, "a", false) + "."), "");
        constexpr std::int64_t kHuge = std::int64_t{1} << 62;
        EXPECT_NE(refusal(make(pickled_dtype("u1", "|"), {kHuge, 4}, "a", false) + "."), "");
        EXPECT_NE(refusal(make(pickled_dtype("u1", "|"), std::vector<std::int64_t>(65, 1), "a", false) + "."), "");
        EXPECT_NE(refusal(make("N", {1}, "a", false) + "."), "");
    }
    const std::string scalar = pickled_name("numpy._core.multiarray", "scalar");
    EXPECT_EQ(pickle.read(as_bytes(scalar + pickled_dtype("i4", "<") + "C\4\xfe\xff\xff\xff\x86R.")).integer(), -2);
    EXPECT_THAT(refusal(pickled_dtype("O8", "|") + "."), HasSubstr("the NumPy type \"O8\""));
    EXPECT_THAT(refusal(pickled_name("numpy", "ndarray") + ")R."), HasSubstr("a call of numpy.ndarray"));
}

// A state may be referred to many times; an array is filled only once.
TEST(Pickle, ArraysAreFilledOnce) {
    std::string code = pickled_array(pickled_dtype("u1", "|"), {1}, "a");
    code.insert(code.size() - 1, "q\1");
    EXPECT_EQ(refusal(code + "."), "");
    EXPECT_THAT(refusal(code + "h\1b."), HasSubstr("an array to fill"));
}

TEST(Pickle, TorchTensors) {
    Pickle pickle;
    const std::string code = pickled_tensor("ShortStorage", "17", 4, {2, 3}, {3, 1});
    const std::string parameter = pickled_name("torch._utils", "_rebuild_parameter") + code + "\x88N\x87R.";
    for (const std::string& whole : {code + ".", parameter}) {
        const PickledTensor tensor = pickle.read(as_bytes(whole)).tensor();
        EXPECT_EQ(tensor.storage, "17");
        EXPECT_EQ(tensor.type, (ArrayType{.kind = ArrayKind::signed_integer, .item_size = 2}));
        EXPECT_EQ(tensor.offset, 4);
        EXPECT_EQ(tensor.shape, (Shape{2, 3}));
        EXPECT_EQ(tensor.strides, (Shape{3, 1}));
    }
    const std::string brain = pickled_tensor("BFloat16Storage", "0", 0, {2}, {1}) + ".";
    EXPECT_EQ(pickle.read(as_bytes(brain)).tensor().type, (ArrayType{.kind = ArrayKind::bfloat16, .item_size = 2}));
    EXPECT_EQ(pickle.read(as_bytes(brain)).describe(), "bfloat16 tensor of (2)");
    EXPECT_NE(refusal(pickled_tensor("ByteStorage", "0", 0, {2, 3}, {1}) + "."), "");
    EXPECT_NE(refusal(pickled_tensor("ByteStorage", "0", 0, {-2}, {1}) + "."), "");
    EXPECT_THAT(refusal(pickled_tensor("ComplexFloatStorage", "0", 0, {2}, {1}) + "."),
                HasSubstr("\"torch.ComplexFloatStorage\""));
    EXPECT_THAT(refusal("K\1Q."), HasSubstr("a torch storage"));
}

TEST(Pickle, OtherNamesAreRefusedWithTheirPlace) {
    for (const auto& [module, name] :
         std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                          {"posix", "system"},
                                                          {"builtins", "eval"},
                                                          {"builtins", "exec"},
                                                          {"builtins", "getattr"},
                                                          {"__builtin__", "__import__"},
                                                          {"subprocess", "Popen"},
                                                          {"numpy", "load"},
                                                          {"torch", "load"},
                                                          {"builtins", "bytes.join"},
                                                          {"numpy.core", "multiarray.scalar"},
                                                          {"", ""}}) {
        const std::string called = "\x80\x02]" + pickled_name(module, name) + pickled_text("true") + "\x85Ra.";
        EXPECT_THAT(refusal(called),
                    AllOf(HasSubstr("\"" + module + "." + name + "\" at byte 3"), HasSubstr("executed")));
        const std::string stacked = pickled_text(module) + pickled_text(name) + "\x93.";
        EXPECT_THAT(refusal(stacked), HasSubstr("\"" + module + "." + name + "\""));
    }
}

TEST(Pickle, OtherOpcodesAreRefused) {
    const std::string known =
        "NI\x88\x89JKLM\x8a\x8b"
        "FGSTUVX\x8c\x8d"
        "BC\x8e\x96(012]})ldt\x85\x86\x87"
        "aseu\x80\x95.ghjpqr\x94"
        "c\x93R\x81\x92\x8f\x90\x91"
        "bQ";
    for (int code = 0; code < 256; ++code) {
        const std::string pickle = std::string(1, static_cast<char>(code)) + ".";
        const bool is_known = known.find(static_cast<char>(code)) != std::string::npos;
        EXPECT_EQ(refusal(pickle).find("the opcode 0x") == std::string::npos, is_known) << code;
    }
    EXPECT_THAT(refusal("\x80\x06N."), HasSubstr("protocol 6"));
    EXPECT_NE(refusal(std::string("\x95\x09\0\0\0\0\0\0\0N.", 11)), "");  // a frame beyond the end
}

TEST(Pickle, TheStackHasAFloor) {
    for (const char* bad :
         {".",  "0",     "a.",      "]a.", "s.",         "t.",         "e.",      "1.",         "R.",       "b.",
          "2.", "\x85.", "(K\1(a.", "(e.", "K\1(t\x87.", "(K\1(\x86.", "](K\1u.", "}(K\1K\2e.", "K\1K\2a.", "(."}) {
        EXPECT_NE(refusal(bad), "") << bad;
    }
}

TEST(Pickle, EveryPrefixIsRefused) {
    const std::string whole =
        pickled_dict({pickled_text("image"), pickled_array(pickled_dtype("u1", "|"), {2, 2}, "abcd"),
                      pickled_text("buffer"), pickled_buffer(pickled_dtype("f4", "<"), {1}, "abcd"),
                      pickled_text("tensor"), pickled_tensor("LongStorage", "0", 0, {1}, {1}), "U\1x", "I12\n"}) +
        ".";
    EXPECT_EQ(refusal(whole), "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
    }
}

TEST(Pickle, DamageIsAnErrorAndTheReaderGoesOn) {
    const std::string whole = pickled_dict({pickled_text("a"), pickled_array(pickled_dtype("u1", "|"), {2}, "ab"),
                                            "U\1b", pickled_tensor("ByteStorage", "0", 0, {1}, {1})}) +
                              ".";
    Pickle pickle;
    Rng rng({.seed = 5});
    for (int round = 0; round < 3000; ++round) {
        std::string damaged = whole;
        for (int i = 0; i < 3; ++i) {
            damaged[rng.below(static_cast<std::uint32_t>(damaged.size()))] = static_cast<char>(rng.below(256));
        }
        try {
            pickle.read(as_bytes(damaged)).describe();
        } catch (const DataError&) {
        } catch (const Unsupported&) {
        }
        ASSERT_EQ(text_of(pickle.read(as_bytes(whole)).find("a")->array().bytes), "ab");
    }
}

TEST(Pickle, MoreValuesThanTheMemoryLimitAllowsAreRefused) {
    const std::size_t kMany = 8 << 20;
    const std::pair<const char*, std::string> bombs[] = {
        {"empty lists", "(" + std::string(kMany, ']') + "l."},
        {"one value many times", "(K\1" + std::string(4 * kMany, '2') + "l."},
        {"a memo with one high index", "K\1r" + std::string("\0\0\0\4", 4) + std::string(std::size_t{65} << 20, 'N')},
    };
    for (const auto& [what, bytes] : bombs) {
        Pickle pickle;
        const MemoryRoom room(80 * kMiB);
        EXPECT_THROW(pickle.read(as_bytes(bytes)), MemoryError) << what;
    }
}

// Objects are left out with all that they hold, nothing is executed, and the other values are there.
TEST(Pickle, OtherObjectsAreLeftOut) {
    const std::string object = pickled_name("os", "system") + pickled_tuple({pickled_text("x")}) + "R";
    const std::string built = pickled_name("my", "Class") + ")\x81" + pickled_dict({pickled_text("a"), "K\1"}) + "b";
    const std::string keyed = pickled_name("my", "Class") + ")}\x92";
    const std::string counted = pickled_name("collections", "Counter") + pickled_tuple({pickled_dict({})}) + "R" + "(" +
                                pickled_text("a") + "K\2u";
    const std::string set = "\x8f(K\1K\2\x90";
    const std::string frozen = "(K\1\x91";
    const std::string large = std::string("\x8a\x09") + std::string(8, '\0') + "\1";
    const std::string objects =
        std::string("\x80\4") + pickled_name("numpy._core.multiarray", "_reconstruct") +
        pickled_tuple({pickled_name("numpy", "ndarray"), std::string("K\0\x85", 3), pickled_bytes("b")}) + "R" +
        pickled_tuple({"K\1", "K\1\x85", pickled_dtype("O8", "|"), "\x89", "]"}) + "b";
    Pickle pickle("x.pt", OtherObjects::left_out);
    for (const std::string& other : {object, built, keyed, counted, set, frozen, large, objects}) {
        const std::string bytes = pickled_dict({pickled_text("other"), other, pickled_text("a"), "K\5"}) + ".";
        const PickleValue root = pickle.read(as_bytes(bytes));
        ASSERT_EQ(root.find("other")->kind(), PickleValue::Kind::other) << bytes;
        EXPECT_EQ(root.find("a")->integer(), 5);
        EXPECT_NE(refusal(bytes), "");
    }
    EXPECT_EQ(pickle.read(as_bytes(object + ".")).describe(), "object of os.system");
    EXPECT_THROW(pickle.read(as_bytes(pickled_name("collections", "OrderedDict") + ")}\x92.")), Unsupported);
}

TEST(Pickle, TensorsOfNewerTypesAndOfOtherClasses) {
    const std::string storage = pickled_tuple({pickled_text("storage"), pickled_name("torch.storage", "UntypedStorage"),
                                               pickled_text("0"), pickled_text("cpu"), "K\4"}) +
                                "Q";
    const auto typed = [&](const char* dtype) {
        return pickled_name("torch._utils", "_rebuild_tensor_v3") +
               pickled_tuple(
                   {storage, std::string("K\0", 2), "K\2\x85", "K\1\x85", "\x89", "N", pickled_name("torch", dtype)}) +
               "R";
    };
    Pickle pickle("x.pt", OtherObjects::left_out);
    const PickledTensor tensor = pickle.read(as_bytes(typed("uint16") + ".")).tensor();
    EXPECT_EQ(tensor.type.item_size, 2);
    EXPECT_EQ(tensor.type.kind, ArrayKind::unsigned_integer);
    EXPECT_EQ(pickle.read(as_bytes(typed("float8_e4m3fn") + ".")).describe(), "object of torch.float8_e4m3fn");
    const std::string inner = pickled_tuple({storage, std::string("K\0", 2), "K\2\x85", "K\1\x85", "\x89", "N"});
    const auto subclass = [&](const std::string& function) {
        return pickled_name("torch._tensor", "_rebuild_from_type_v2") +
               pickled_tuple(
                   {function, pickled_name("torchvision.tv_tensors._image", "Image"), inner, pickled_dict({})}) +
               "R.";
    };
    EXPECT_EQ(pickle.read(as_bytes(subclass(pickled_name("torch._utils", "_rebuild_tensor_v2")))).tensor().shape,
              (Shape{2}));
    EXPECT_EQ(pickle.read(as_bytes(subclass(pickled_name("my", "function")))).kind(), PickleValue::Kind::other);
    EXPECT_THROW(pickle.read(as_bytes(subclass(pickled_name("numpy", "dtype")))), DataError);
}

}  // namespace
}  // namespace stoker
