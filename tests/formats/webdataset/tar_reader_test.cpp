// All dialects of tar, all kinds of damage, and random lists of members, read back as written.
#include "stoker/formats/webdataset/tar_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "formats/webdataset/tar_support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using namespace stoker::testing;

using Files = std::vector<std::pair<std::string, std::string>>;  // name, payload

Files parse(const std::string& tar, const TarWindow& window = {}) {
    TarReader reader(
        "x.tar", tar.size(),
        [&](std::uint64_t offset, std::span<std::byte> out) {
            ASSERT_LE(offset, tar.size());
            ASSERT_LE(out.size(), tar.size() - offset);
            std::ranges::copy(as_bytes(std::string_view(tar).substr(offset, out.size())), out.begin());
        },
        window);
    Files files;
    TarMember member;
    while (reader.next(member)) {
        files.emplace_back(member.name, tar.substr(member.payload.offset, member.payload.size));
        const auto bytes = reader.bytes(member.payload);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), files.back().second);
    }
    return files;
}

template <typename Kind = DataError>
std::string error_of(const std::string& tar) {
    try {
        parse(tar);
    } catch (const Kind& error) {
        return error.what();
    }
    return "read";
}

TEST(TarReader, EveryDialect) {
    const std::string payload(700, 'p');
    const TarOptions gnu = {.magic = kGnu};
    EXPECT_THAT(parse(tar_member("a.jpg", payload) + tar_end()), ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("a.jpg", payload, {.magic = kV7}) + tar_end()), ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("a.jpg", payload, {.type = '\0', .magic = kV7}) + tar_end()),
                ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("a.jpg", payload, {.type = '7'}) + tar_end()), ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("a.jpg", payload, gnu) + tar_end()), ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("a.jpg", payload, {.base256 = true}) + tar_end()),
                ElementsAre(Pair("a.jpg", payload)));
    EXPECT_THAT(parse(tar_member("\xc3\xa9.jpg", "", {.signed_sum = true}) + tar_end()),
                ElementsAre(Pair("\xc3\xa9.jpg", "")));
    const std::string full(100, 'n');
    EXPECT_THAT(parse(tar_member(full, payload) + tar_end()), ElementsAre(Pair(full, payload)));
    EXPECT_THAT(parse(tar_end()), IsEmpty());
}

TEST(TarReader, LongNames) {
    const std::string deep = std::string(120, 'd') + "/" + std::string(90, 'n');
    const std::string longer = std::string(300, 'e') + "/x.jpg";
    EXPECT_THAT(parse(tar_member(deep.substr(121), "1", {.prefix = deep.substr(0, 120)}) + tar_end()),
                ElementsAre(Pair(deep, "1")));
    // A GNU header stores times in place of the prefix.
    EXPECT_THAT(parse(tar_member("a", "1", {.magic = kGnu, .prefix = "14500000000"}) + tar_end()),
                ElementsAre(Pair("a", "1")));
    EXPECT_THAT(parse(long_name(longer) + tar_member("cut", "2") + tar_member("own", "3") + tar_end()),
                ElementsAre(Pair(longer, "2"), Pair("own", "3")));
    EXPECT_THAT(parse(long_name("to/a/target", 'K') + long_name(longer) + tar_member("cut", "", {.type = '2'}) +
                      tar_member("own", "3") + tar_end()),
                ElementsAre(Pair("own", "3")));
    EXPECT_THAT(parse(pax(pax_record("mtime", "1.5") + pax_record("path", longer)) + tar_member("cut", "4") +
                      tar_member("own", "5") + tar_end()),
                ElementsAre(Pair(longer, "4"), Pair("own", "5")));
}

TEST(TarReader, PaxHeaders) {
    const std::string size = pax(pax_record("size", "3") + pax_record("comment", "a=b\nc"));
    EXPECT_THAT(parse(size + tar_header("a", 0) + padded("abc") + tar_member("b", "x") + tar_end()),
                ElementsAre(Pair("a", "abc"), Pair("b", "x")));
    // A global header stays in force, a local one overrides it, an empty value restores the field of the header.
    const std::string global = pax(pax_record("comment", "x") + pax_record("path", "all"), 'g');
    EXPECT_THAT(parse(global + tar_member("a", "1") + pax(pax_record("path", "mine")) + tar_member("b", "2") +
                      pax(pax_record("path", ""), 'g') + tar_member("c", "3") + tar_end()),
                ElementsAre(Pair("all", "1"), Pair("mine", "2"), Pair("c", "3")));
    EXPECT_THAT(parse(pax(std::string(20, '\0')) + tar_member("a", "1") + tar_end()), ElementsAre(Pair("a", "1")));
    for (const std::string& records :
         {std::string("9 path=a"), std::string("99 path=a\n"), std::string("path=a\n"), std::string("9  patha\n"),
          std::string("0 \n"), std::string("99999999999999999999999 path=a\n"), std::string("8 path=ab\n"),
          pax_record("size", "-1"), pax_record("size", "9223372036854775808"), pax_record("size", "1x")}) {
        EXPECT_THAT(error_of(pax(records) + tar_member("a", "") + tar_end()), HasSubstr("[x.tar")) << records;
    }
}

TEST(TarReader, OtherEntriesAreSkipped) {
    std::string tar = tar_member("d/", "", {.type = '5'}) + tar_member("d/", "", {.type = '\0', .magic = kV7}) +
                      tar_member("./", "", {.type = '5'});
    for (const char type : {'1', '2', '3', '4', '6'}) {  // a hard link has the size of its target
        tar += tar_header("link", 5000, {.type = type});
    }
    for (const char type : {'A', 'V', 'Z', 'D'}) {
        tar += tar_member("../any thing", "with a payload", {.type = type});
    }
    EXPECT_THAT(parse(tar + tar_member("./d/./a.jpg", "1") + tar_end()), ElementsAre(Pair("d/a.jpg", "1")));
}

TEST(TarReader, NamesThatLeadOut) {
    for (const std::string name :
         {"../a.jpg", "a/../b.jpg", "a/..", "..", "/etc/passwd", "a//b.jpg", "a.jpg/", ".", "./", "//"}) {
        const std::string said = error_of(tar_member("good", "1") + tar_member(name, "1") + tar_end());
        EXPECT_THAT(said, HasSubstr("[x.tar: " + name + " @ byte 1024] expected names of files below")) << name;
    }
    EXPECT_THAT(error_of(tar_member("", "1") + tar_end()), HasSubstr("an empty one"));
    EXPECT_THAT(error_of(tar_member("../d/", "", {.type = '5'}) + tar_end()), HasSubstr("[x.tar: ../d/ @"));
    EXPECT_THAT(error_of(tar_member("../l", "", {.type = '2'}) + tar_end()), HasSubstr("[x.tar: ../l @"));
    EXPECT_THAT(error_of(long_name("a/../../b") + tar_member("a", "") + tar_end()), HasSubstr("a/../../b"));
    const std::string zero("a\0b", 3);
    EXPECT_THAT(error_of(pax(pax_record("path", zero)) + tar_member("a", "") + tar_end()), HasSubstr("zero byte"));
    EXPECT_THAT(parse(tar_member("..a/b../...", "1") + tar_end()), ElementsAre(Pair("..a/b../...", "1")));
}

TEST(TarReader, Sparse) {
    EXPECT_THAT(error_of<Unsupported>(tar_member("a", "1", {.type = 'S', .magic = kGnu}) + tar_end()),
                HasSubstr("[x.tar: a] expected files stored completely, got a sparse file"));
    EXPECT_THAT(error_of<Unsupported>(pax(pax_record("GNU.sparse.major", "1")) + tar_member("a", "1") + tar_end()),
                HasSubstr("sparse"));
    EXPECT_THAT(error_of<Unsupported>(tar_member("a", "1", {.type = 'M'}) + tar_end()), HasSubstr("several volumes"));
}

TEST(TarReader, CompressedArchives) {
    for (const auto& [start, name] : {std::pair{std::string("\x1f\x8b\x08"), "gunzip"},
                                      {std::string("\x28\xb5\x2f\xfd"), "unzstd"},
                                      {std::string("\xfd") + "7zXZ", "unxz"},
                                      {std::string("BZh9"), "bunzip2"}}) {
        EXPECT_THAT(error_of<Unsupported>(padded(start) + tar_end()),
                    HasSubstr(fmt::format("decompress it with {}", name)));
    }
}

TEST(TarReader, CutShort) {
    const std::string tar = tar_member("a", std::string(600, 'a')) + tar_member("b", "b");
    for (std::size_t size = 0; size < tar.size(); ++size) {
        EXPECT_THAT(error_of(tar.substr(0, size)), HasSubstr("@ byte ")) << size;
    }
    EXPECT_THAT(error_of(tar), HasSubstr("@ byte 2560] expected 512 more bytes from 2560 on, got the end"));
    EXPECT_THAT(error_of(tar + std::string(511, '\0')), HasSubstr("@ byte 2560]"));
    EXPECT_EQ(parse(tar + std::string(512, '\0')).size(), 2u);
    EXPECT_EQ(parse(tar + std::string(700, '\0')).size(), 2u);
    EXPECT_EQ(parse(tar + tar_end() + "anything").size(), 2u);
    EXPECT_THAT(error_of(tar + std::string(512, '\0') + tar), HasSubstr("two blocks of zeros"));
    EXPECT_THAT(error_of(pax(pax_record("path", "x")) + tar_end()), HasSubstr("a member after its long name"));
}

TEST(TarReader, SizesBeyondTheArchive) {
    for (const std::uint64_t size : {std::uint64_t{2000}, std::uint64_t{1} << 32, (std::uint64_t{1} << 63) - 1}) {
        const TarOptions options = {.base256 = true, .claimed = size};
        EXPECT_THAT(error_of(tar_member("a", "1", options) + tar_end()), HasSubstr(fmt::format("{} more bytes", size)));
    }
    EXPECT_THAT(error_of(tar_member("a", "1", {.base256 = true, .claimed = std::uint64_t{1} << 63}) + tar_end()),
                HasSubstr("below 2^63"));
    EXPECT_THAT(error_of(tar_header("a", std::uint64_t{1} << 30, {.type = 'L'}) + tar_end()),
                HasSubstr("a long name or pax header of at most"));
    EXPECT_THAT(error_of(pax(pax_record("size", "9000")) + tar_member("a", "1") + tar_end()), HasSubstr("9000 more"));
}

TEST(TarReader, DamagedHeaders) {
    const std::string good = tar_member("a.jpg", "1") + tar_end();
    for (std::size_t at = 0; at < 512; ++at) {
        if (at == 155) {  // after the checksum: not significant
            continue;
        }
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x41);
        EXPECT_NE(error_of(bad), "read") << at;
    }
    EXPECT_THAT(error_of(good.substr(0, 512) + padded("1") + std::string(512, 'x') + tar_end()),
                HasSubstr("[x.tar @ byte 1024] expected octal digits as a checksum"));
}

// Random lists in random dialects, with random read sizes, so that headers and payloads cross the ends of pieces.
TEST(TarReader, RandomArchivesAreReadAsWritten) {
    std::mt19937 random(7);
    const auto below = [&](std::uint32_t end) { return static_cast<std::size_t>(random() % end); };
    for (int round = 0; round < 300; ++round) {
        std::string tar;
        Files written;
        for (std::size_t left = below(12); left > 0; --left) {
            std::string name(1 + below(round % 3 == 0 ? 400 : 90), 'a');
            for (char& c : name) {
                c = "abcXYZ._-\xc3 "[below(11)];
            }
            name = "d/" + name + "x";
            std::string payload(below(4) == 0 ? 0 : below(3000), '\0');
            std::ranges::generate(payload, [&] { return static_cast<char>(random()); });
            const std::size_t kind = below(3);
            TarOptions options{.magic = kind == 0 ? kPosix : kind == 1 ? kGnu : kV7, .base256 = below(2) == 0};
            if (below(4) == 0) {
                tar += tar_member("link", "", {.type = "12345"[below(5)]});
            }
            if (name.size() > 100) {
                tar += kind == 1 ? long_name(name) : pax(pax_record("path", name));
            } else if (kind == 0 && below(2) == 0) {
                options.prefix = "pre";
            }
            tar += tar_member(name, payload, options);
            written.emplace_back(options.prefix.empty() ? name : "pre/" + name, payload);
        }
        tar += tar_end();
        const TarWindow window = {.sequential = 1 + below(4000), .header = 1 + below(1000), .skip_from = below(3000)};
        ASSERT_EQ(parse(tar, window), written) << round;
        ASSERT_EQ(parse(tar), written) << round;
    }
}

// Payloads of large members are not read; small members are read in few pieces.
TEST(TarReader, ReadsNoMoreThanItNeeds) {
    for (const auto& [size, share, reads] :
         {std::tuple{std::size_t{400'000}, 0.35, std::size_t{40}}, {std::size_t{700}, 1.0, std::size_t{2}}}) {
        std::string tar;
        for (int i = 0; i < 32; ++i) {
            tar += tar_member(fmt::format("{}.jpg", i), std::string(size, 'x')) + tar_member("a.cls", "7");
        }
        tar += tar_end();
        MemoryFile::Log log;
        const MemoryFile file("x.tar", tar, &log);
        TarReader reader("x.tar", tar.size(), [&](std::uint64_t at, std::span<std::byte> out) { file.read(at, out); });
        TarMember member;
        int members = 0;
        while (reader.next(member)) {
            ++members;
            if (member.name == "a.cls") {
                EXPECT_EQ(reader.bytes(member.payload)[0], std::byte{'7'});
            }
        }
        std::uint64_t read = 0;
        for (const ByteRange& range : log.reads) {
            read += range.size;
        }
        EXPECT_EQ(members, 64);
        EXPECT_LE(static_cast<double>(read), share * static_cast<double>(tar.size())) << size;
        EXPECT_LE(log.reads.size(), reads) << size;
    }
}

}  // namespace
}  // namespace stoker
