// Zip files made by the test and then corrupted one field at a time: every wrong field must be detected.
#include "stoker/io/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/arrays/npz_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/rng.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal(const std::string& file) {
    try {
        const ZipFile opened(as_bytes(file));
        for (const ZipEntry& entry : opened.entries()) {
            opened.inflate(entry);
        }
        return "";
    } catch (const DataError& error) {
        return error.what();
    } catch (const Unsupported& error) {
        return error.what();
    }
}

// `file` with the bytes at `at` replaced.
std::string with(std::string file, std::size_t at, std::string_view bytes) {
    return file.replace(at, bytes.size(), bytes);
}

std::string long_text() {
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
        text += std::to_string(i * i % 1000);
    }
    return text;
}

TEST(Zip, MembersStoredAndDeflated) {
    const TempDir folder;
    const std::string file =
        zip({{"a/one", "first", false}, {"two", long_text(), true}, {"a/", "", false}, {"", "", true}});
    write_file(folder / "x.zip", file);
    const ZipFile opened(folder / "x.zip");
    EXPECT_TRUE(is_zip(opened.bytes()));
    ASSERT_EQ(opened.entries().size(), 3u);  // without the folder
    const ZipEntry* one = opened.find("a/one");
    const ZipEntry* two = opened.find("two");
    ASSERT_TRUE(one != nullptr && two != nullptr);
    EXPECT_EQ(opened.find("t"), nullptr);
    EXPECT_NE(opened.find(""), nullptr);
    EXPECT_EQ(text_of(opened.stored(*one)), "first");
    EXPECT_EQ(opened.stored(*one).data(), opened.bytes().data() + one->offset);
    EXPECT_EQ(text_of(opened.inflate(*one).bytes()), "first");
    EXPECT_LT(two->compressed_size, two->size);
    EXPECT_EQ(text_of(opened.inflate(*two).bytes()), long_text());
    EXPECT_THROW(opened.stored(*two), Unsupported);
    std::string read(5, '\0');
    ASSERT_NE(opened.file(), nullptr);
    opened.file()->read(one->offset, std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, "first");
}

TEST(Zip, Empty) {
    EXPECT_EQ(refusal(zip({})), "");
    EXPECT_NE(refusal(""), "");
    EXPECT_NE(refusal(std::string(1000, 'x')), "");
    EXPECT_FALSE(is_zip(as_bytes("PK")));
}

TEST(Zip, CommentsAndPrefixesOfRecords) {
    const std::string file = zip({{"a", "PK\5\6PK\1\2PK\3\4", false}});
    std::string commented = file + "a remark";
    commented[file.size() - 2] = 8;
    EXPECT_EQ(refusal(commented), "");
    EXPECT_THAT(refusal(file + "x"), HasSubstr("directory at the end"));
}

// Zip64 records, as torch and NumPy write them for large files.
TEST(Zip, Zip64) {
    const std::string all_ones = std::string(4, '\xff');
    const std::string local = "PK\3\4" + std::string(22, '\0') + little_endian(1, 2) + little_endian(0, 2) + "a";
    const std::string extra =
        little_endian(1, 2) + little_endian(24, 2) + little_endian(5, 8) + little_endian(5, 8) + little_endian(0, 8);
    const std::string entry = "PK\1\2" + std::string(12, '\0') + little_endian(0x3610a686, 4) + all_ones + all_ones +
                              little_endian(1, 2) + little_endian(4 + extra.size(), 2) + std::string(10, '\0') +
                              all_ones + "a" + std::string("\7\7\0\0", 4) + extra;
    const std::string body = local + "hello" + entry;
    const auto end = [&](std::uint64_t at, std::uint64_t size) {
        return "PK\6\6" + little_endian(44, 8) + std::string(12, '\0') + little_endian(1, 8) + little_endian(1, 8) +
               little_endian(size, 8) + little_endian(at, 8) + "PK\6\7" + little_endian(0, 4) +
               little_endian(body.size(), 8) + little_endian(1, 4) + "PK\5\6" + std::string(4, '\0') +
               std::string(12, '\xff') + little_endian(0, 2);
    };
    const std::string file = body + end(local.size() + 5, entry.size());
    EXPECT_EQ(refusal(file), "");
    EXPECT_EQ(text_of(ZipFile(as_bytes(file)).stored(ZipFile(as_bytes(file)).entries()[0])), "hello");
    for (const std::uint64_t lie : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{file.size()}}) {
        EXPECT_NE(refusal(body + end(lie, entry.size())), "") << lie;
        EXPECT_NE(refusal(body + end(local.size() + 5, lie)), "") << lie;
        const std::size_t sizes = body.size() - 24;
        for (const std::size_t at : {sizes, sizes + 8, sizes + 16}) {
            EXPECT_NE(refusal(with(file, at, little_endian(lie, 8))), "") << lie;
        }
        EXPECT_NE(refusal(with(file, body.size() + 56 + 8, little_endian(lie, 8))), "") << lie;
    }
}

TEST(Zip, WrongFieldsAreDetected) {
    const std::string file = zip({{"one", "first", false}, {"two", long_text(), true}});
    EXPECT_EQ(refusal(file), "");
    const std::size_t entry = file.find("PK\1\2");
    const std::size_t second = file.find("PK\1\2", entry + 1);
    const std::size_t end = file.find("PK\5\6");
    EXPECT_THAT(refusal(with(file, entry + 8, "\1")), HasSubstr("not encrypted"));
    EXPECT_THAT(refusal(with(file, entry + 10, "\x0c")), HasSubstr("compression method 12"));
    EXPECT_THAT(refusal(with(file, entry + 16, "\1")), HasSubstr("checksum"));
    EXPECT_THAT(refusal(with(file, entry + 24, "\6")), HasSubstr("a size of \"one\""));
    EXPECT_THAT(refusal(with(file, entry + 42, "\1")), HasSubstr("the place of"));
    EXPECT_THAT(refusal(with(file, entry + 42, "\xff\xff\xff\x7f")), HasSubstr("the place of"));
    EXPECT_THAT(refusal(with(file, entry + 20, "\xff\xff\xff\x7f")), HasSubstr("before the directory"));
    EXPECT_THAT(refusal(with(file, entry + 28, "\xff\xff")), HasSubstr("within the directory"));
    EXPECT_THAT(refusal(with(file, 30, "O")), HasSubstr("another name"));
    EXPECT_THAT(refusal(with(file, second + 24, "\xff\xff\xff\x7f")), HasSubstr("a size of \"two\""));
    EXPECT_THAT(refusal(with(file, second + 24, "\1")), HasSubstr("deflate"));
    EXPECT_THAT(refusal(with(file, end + 10, "\3")), HasSubstr("end record"));
    EXPECT_THAT(refusal(with(file, end + 10, "\xff\xff")), HasSubstr("end record"));
    EXPECT_THAT(refusal(with(file, end + 16, "\xff\xff\xff\x7f")), HasSubstr("end record"));
    EXPECT_THAT(refusal(with(file, end + 4, "\1")), HasSubstr("a part of several"));
    EXPECT_THAT(refusal(zip({{"a", "", false}, {"a", "", false}})), HasSubstr("\"a\" twice"));
    // Both entries name the first member.
    const std::string twins = zip({{"a", "text", false}, {"a", "text", false}});
    EXPECT_THAT(refusal(with(twins, twins.rfind("PK\1\2") + 42, std::string(4, '\0'))), HasSubstr("twice"));
}

TEST(Zip, MembersMayNotOverlap) {
    const std::string inner = zip({{"b", "text", false}});
    const std::string member = inner.substr(0, inner.find("PK\1\2"));
    const std::string file = zip({{"a", member, false}, {"b", "text", false}});
    const std::size_t within = file.find("PK\3\4", 4);
    EXPECT_THAT(refusal(with(file, file.rfind("PK\1\2") + 42, little_endian(within, 4))),
                HasSubstr("\"b\" within \"a\""));
}

TEST(Zip, DamageIsAnError) {
    const std::string whole = zip({{"one", "first", false}, {"two", long_text().substr(0, 200), true}});
    Rng rng({.seed = 11});
    for (int round = 0; round < 3000; ++round) {
        std::string damaged =
            whole.substr(0, round % 3 == 0 ? rng.below(static_cast<std::uint32_t>(whole.size())) : whole.size());
        for (int i = 0; i < 2 && !damaged.empty(); ++i) {
            damaged[rng.below(static_cast<std::uint32_t>(damaged.size()))] = static_cast<char>(rng.below(256));
        }
        refusal(damaged);  // any other exception fails the test
    }
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
    }
}

TEST(Zip, AMemberLargerThanTheMemoryLimitIsRefusedBeforeItIsInflated) {
    const std::string file = zip({{.name = "zeros", .content = std::string(100 * kMiB, '\0'), .deflate = true}});
    ASSERT_LT(file.size(), kMiB);
    const ZipFile opened(as_bytes(file));
    const MemoryRoom room(50 * kMiB);
    EXPECT_THAT([&] { opened.inflate(opened.entries().front()); },
                ::testing::ThrowsMessage<MemoryError>(::testing::AllOf(HasSubstr("[zeros]"), HasSubstr("100 MiB"))));
    set_memory_limit(0);
    EXPECT_EQ(opened.inflate(opened.entries().front()).size(), 100 * kMiB);
}

}  // namespace
}  // namespace stoker
