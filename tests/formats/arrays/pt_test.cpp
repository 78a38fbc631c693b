// Files as torch.save writes them, made here by a zip writer and a pickle writer, so that each number can be wrong.
#include "stoker/formats/arrays/pt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/arrays/npz_support.h"
#include "formats/pickle/pickle_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "support/temp_dir.h"

namespace stoker::pt_test {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string pt(const std::string& structure, const std::vector<std::string>& storages, bool deflate = false,
               const std::string& order = "little") {
    std::vector<Member> members = {{"d/data.pkl", structure + ".", deflate}, {"d/byteorder", order, deflate}};
    for (std::size_t i = 0; i < storages.size(); ++i) {
        members.push_back({"d/data/" + std::to_string(i), storages[i], deflate});
    }
    return zip(members);
}

std::string refusal(const std::string& file) {
    try {
        const PtFile opened(as_bytes(file));
        return "";
    } catch (const DataError& error) {
        return error.what();
    } catch (const Unsupported& error) {
        return error.what();
    }
}

std::vector<std::string> names_of(const PtFile& file) {
    std::vector<std::string> names;
    for (const ArrayView& array : file.arrays()) {
        names.push_back(array.name);
    }
    return names;
}

TEST(Pt, ViewsIntoTheFile) {
    const TempDir folder;
    const std::string images = pickled_tensor("ByteStorage", "0", 2, {2, 3}, {3, 1});
    const std::string labels = pickled_tensor("ShortStorage", "1", 0, {2}, {1});
    write_file(folder / "d.pt", pt(pickled_dict({pickled_text("images"), images, pickled_text("labels"), labels}),
                                   {"..abcdef", std::string("\1\0\2\0", 4)}));
    EXPECT_THAT(PtFile::names(folder / "d.pt"), ElementsAre("images", "labels"));
    const PtFile file(folder / "d.pt");
    ASSERT_THAT(names_of(file), ElementsAre("images", "labels"));
    const ArrayView& first = file.arrays()[0];
    EXPECT_TRUE(first.type.is_uint8());
    EXPECT_EQ(first.shape, (Shape{2, 3}));
    EXPECT_EQ(text_of(first.bytes), "abcdef");
    std::string read(6, '\0');
    ASSERT_NE(first.file, nullptr);
    first.file->read(first.offset, std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, "abcdef");
    EXPECT_EQ(integer_at(file.arrays()[1], 1), 2);
    const std::vector<std::string> wanted = {"labels", "others"};
    EXPECT_THAT(names_of(PtFile(folder / "d.pt", wanted)), ElementsAre("labels"));
}

TEST(Pt, Containers) {
    const std::string tensor = pickled_tensor("ByteStorage", "0", 0, {2}, {1});
    EXPECT_THAT(names_of(PtFile(as_bytes(pt(tensor, {"ab"})))), ElementsAre(""));
    EXPECT_THAT(names_of(PtFile(as_bytes(pt(pickled_tuple({tensor, tensor}), {"ab"})))), ElementsAre("0", "1"));
    EXPECT_THAT(names_of(PtFile(as_bytes(pt("](" + tensor + "N" + tensor + "e", {"ab"})))), ElementsAre("0", "2"));
    EXPECT_THAT(names_of(PtFile(as_bytes(pt(pickled_dict({"K\7", tensor}), {"ab"})))), ElementsAre("7"));
}

// Elements in C order, by a plain loop.
TEST(Pt, StridedTensorsAreCopied) {
    Rng rng({.seed = 2});
    std::string storage(4000, '\0');
    for (char& byte : storage) {
        byte = static_cast<char>(rng.below(256));
    }
    for (int round = 0; round < 200; ++round) {
        const std::vector<std::int64_t> shape = {1 + rng.below(4), 1 + rng.below(4), 1 + rng.below(4)};
        std::vector<std::int64_t> strides = {shape[1] * shape[2], shape[2], 1};
        std::vector<std::int64_t> sides = shape;
        for (std::uint32_t i = 2; i > 0; --i) {
            const std::uint32_t j = rng.below(i + 1);
            std::swap(strides[i], strides[j]);
            std::swap(sides[i], sides[j]);
        }
        const std::int64_t step = 1 + rng.below(3);
        const std::int64_t offset = rng.below(50);
        std::string expected;
        for (std::int64_t a = 0; a < sides[0]; ++a) {
            for (std::int64_t b = 0; b < sides[1]; ++b) {
                for (std::int64_t c = 0; c < sides[2]; ++c) {
                    const std::int64_t at = offset + step * (a * strides[0] + b * strides[1] + c * strides[2]);
                    expected += storage.substr(static_cast<std::size_t>(4 * at), 4);
                }
            }
        }
        for (std::int64_t& stride : strides) {
            stride *= step;
        }
        const bool deflate = round % 2 == 1;
        const std::string bytes = pt(pickled_tensor("IntStorage", "0", offset, sides, strides), {storage}, deflate);
        const PtFile file(as_bytes(bytes));
        EXPECT_EQ(text_of(file.arrays()[0].bytes), expected) << round;
        EXPECT_EQ(file.arrays()[0].shape, sides);
    }
}

TEST(Pt, BigEndianFiles) {
    const std::string bytes = pt(pickled_tensor("ShortStorage", "0", 0, {1}, {1}), {std::string("\1\2")}, false, "big");
    EXPECT_EQ(integer_at(PtFile(as_bytes(bytes)).arrays()[0], 0), 0x0102);
    EXPECT_THAT(refusal(pt(pickled_tensor("ShortStorage", "0", 0, {1}, {1}), {"ab"}, false, "middle")),
                HasSubstr("byte order"));
}

TEST(Pt, WhatLiesBeside) {
    const std::string tensor = pickled_tensor("ByteStorage", "0", 0, {2}, {1});
    const std::string bytes =
        pt(pickled_dict({pickled_text("x"), tensor, pickled_text("y"), pickled_tuple({"K\3", "K\4"}),
                         pickled_text("classes"), pickled_tuple({pickled_text("cat"), pickled_text("dog")}),
                         pickled_text("version"), "K\1", pickled_text("settings"),
                         pickled_dict({pickled_text("size"), "K\7"}), pickled_text("none"), "N", pickled_text("array"),
                         pickled_array(pickled_dtype("i2", "<"), {1}, "ab")}),
           {"ab"});
    const PtFile file(as_bytes(bytes));
    ASSERT_THAT(names_of(file), ElementsAre("x", "y", "array"));
    EXPECT_EQ(integer_at(file.arrays()[1], 1), 4);
    EXPECT_EQ(text_of(file.arrays()[2].bytes), "ab");
    ASSERT_EQ(file.texts().size(), 1u);
    EXPECT_THAT(file.texts().at("classes"), ElementsAre("cat", "dog"));
}

TEST(Pt, LiesAboutStoragesAreFound) {
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    const auto refused = [](std::int64_t offset, const std::vector<std::int64_t>& shape,
                            const std::vector<std::int64_t>& strides) {
        return refusal(pt(pickled_tensor("IntStorage", "0", offset, shape, strides), {std::string(40, 'x')}));
    };
    EXPECT_EQ(refused(0, {10}, {1}), "");
    EXPECT_EQ(refused(10, {0}, {1}), "");
    EXPECT_EQ(refused(9, {1, 1}, {kHuge, kHuge}), "");  // strides of sides of 1 are not used
    EXPECT_THAT(refused(0, {11}, {1}), HasSubstr("within the 10 elements"));
    for (const auto& lie :
         {refused(1, {10}, {1}), refused(-1, {1}, {1}), refused(kHuge, {1}, {1}), refused(11, {0}, {1}),
          refused(0, {2}, {10}), refused(0, {3}, {kHuge}), refused(0, {kHuge, 4}, {1, 1}),
          refused(0, {2, 2}, {kHuge, kHuge}), refused(0, {5, 3}, {1, 3})}) {
        EXPECT_NE(lie, "");
    }
    EXPECT_THAT(refused(0, {4, 4}, {1, 1}), HasSubstr("share memory"));
    EXPECT_THAT(refused(0, {1000, 1000}, {0, 0}), HasSubstr("share memory"));
    EXPECT_THAT(refusal(pt(pickled_tensor("IntStorage", "7", 0, {1}, {1}), {"abcd"})), HasSubstr("\"d/data/7\""));
}

TEST(Pt, WorkIsBoundedByTheFile) {
    const std::string strided = pickled_tensor("ByteStorage", "0", 0, {100, 50}, {1, 100});
    std::string often = "](" + strided + "q\1";
    for (int i = 0; i < 100; ++i) {
        often += "h\1";
    }
    EXPECT_THAT(refusal(pt(often + "e", {std::string(5000, 'x')})), HasSubstr("expected contiguous tensors"));
    std::string lists = "](](" + std::string(1000, 'N') + "eq\1";
    for (int i = 0; i < 1000; ++i) {
        lists += "h\1";
    }
    EXPECT_THAT(refusal(pt(lists + "e", {})), HasSubstr("one list many times"));
    std::string many = "](" + pickled_tensor("ByteStorage", "0", 0, {1}, {1}) + "q\1";
    for (int i = 0; i < 5000; ++i) {
        many += "h\1";
    }
    EXPECT_THAT(refusal(pt(many + "e", {"x"})), HasSubstr("at most 4096"));
}

TEST(Pt, WhatIsNoTensorIsNamed) {
    const std::string tensor = pickled_tensor("ByteStorage", "0", 0, {2}, {1});
    EXPECT_THAT(refusal(pt("N", {})), HasSubstr("got None"));
    EXPECT_THAT(refusal(pt(pickled_dict({}), {})), HasSubstr("dict of 0"));
    EXPECT_THAT(refusal(pt(pickled_dict({pickled_text("train"), pickled_dict({"K\1", tensor})}), {"ab"})),
                AllOf(HasSubstr("uint8 tensor of (2)"), HasSubstr("\"train\"")));
    EXPECT_THAT(refusal(pt("]" + pickled_tuple({tensor, "K\1"}) + "a", {"ab"})), HasSubstr("stack the samples"));
    EXPECT_THAT(refusal(pt(pickled_dict({pickled_text("a"), tensor, pickled_text("a"), tensor}), {"ab"})),
                HasSubstr("\"a\" twice"));
    EXPECT_THAT(refusal(zip({{"d/other.pkl", "N.", false}})), HasSubstr("data.pkl"));
    EXPECT_THAT(refusal(pt(pickled_name("os", "system") + ")R", {})), HasSubstr("os.system"));
}

TEST(Pt, FilesThatAreNoZip) {
    const TempDir folder;
    write_file(folder / "old.pt", std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
    write_file(folder / "empty.pt", "");
    for (const char* name : {"old.pt", "empty.pt"}) {
        EXPECT_THROW(PtFile(folder / name), Unsupported) << name;
    }
    EXPECT_THROW(PtFile(folder / "none.pt"), IoError);
}

}  // namespace
}  // namespace stoker::pt_test
