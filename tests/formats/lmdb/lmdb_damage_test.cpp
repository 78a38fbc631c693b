// Files that are not databases, and damaged databases: errors with the place, and no read beyond the file's end.
#include "stoker/formats/lmdb/lmdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/lmdb/lmdb_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/lmdb/lmdb_meta.h"
#include "stoker/formats/open.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::kPng;
using testing::png;
using testing::remove_lmdb;
using testing::TempDir;
using testing::write_lmdb;
using Entries = std::map<std::string, std::string>;

using LmdbDamage = testing::LmdbTest;

TEST_F(LmdbDamage, UnknownRecordsAreDescribed) {
    write_lmdb(dir_ / "db", {{"good", png("")}, {"bad", "XIF89a"}});
    const LmdbDataset dataset(dir_ / "db");
    Sample sample;
    EXPECT_THAT(error_of<DataError>([&] { dataset.read(0, sample); }),
                AllOf(HasSubstr("bad"), HasSubstr(dir_.path().string()), HasSubstr("6 bytes: 58 49 46"),
                      HasSubstr("an encoded image, a sound, a pickle or a Caffe Datum")));
    dataset.read(1, sample);
}

// An unsupported opcode may be damage: it makes a bad sample, and the others stay readable.
TEST_F(LmdbDamage, AnUnsupportedPickleIsABadSample) {
    write_lmdb(dir_ / "db", {{"bad", "\x80\x04\xbd."s}, {"good", png("")}});
    const LmdbDataset dataset(dir_ / "db");
    Sample sample;
    EXPECT_THAT(error_of<DataError>([&] { dataset.read(0, sample); }),
                AllOf(HasSubstr("bad] expected a record that can be read"), HasSubstr("opcode 0xbd")));
    dataset.read(1, sample);
}

TEST_F(LmdbDamage, FilesThatAreNotDatabases) {
    const auto open = [&](const char* name) { return [this, name] { const LmdbDataset dataset(dir_ / name); }; };
    EXPECT_THAT(error_of<IoError>(open("absent.lmdb")), HasSubstr("a folder that holds data.mdb"));
    std::ofstream(dir_ / "text.mdb") << std::string(5000, 't');
    EXPECT_THAT(error_of<DataError>(open("text.mdb")), HasSubstr("an LMDB data file"));
    write_file(dir_ / "empty.mdb", "");
    EXPECT_THAT(error_of<DataError>(open("empty.mdb")), HasSubstr("0 bytes in all"));
    write_lmdb(dir_ / "none.lmdb", {{"__len__", "0"}});
    EXPECT_THAT(error_of<DataError>(open("none.lmdb")), HasSubstr("samples, got none in 1 entries"));
    write_lmdb(dir_ / "dup.lmdb", {{"a", png("")}}, MDB_DUPSORT);
    EXPECT_THAT(error_of<Unsupported>(open("dup.lmdb")), HasSubstr("MDB_DUPSORT"));

    Entries entries;
    for (int i = 0; i < 1000; ++i) {
        entries[fmt::format("{:04}", i)] = png(std::string(1000, 'x'));
    }
    write_lmdb(dir_ / "cut.lmdb", entries);
    fs::resize_file(dir_ / "cut.lmdb", fs::file_size(dir_ / "cut.lmdb") / 2);
    EXPECT_THAT(error_of<DataError>(open("cut.lmdb")), HasSubstr("it has been cut short"));
}

// Page numbers beyond the pages in use and beyond the map, in a file that was made longer.
TEST_F(LmdbDamage, PagesBeyondTheMap) {
    Entries entries;
    for (int i = 0; i < 400; ++i) {
        entries[fmt::format("{:04}", i)] = png(std::string(700, 'x'));
    }
    const fs::path path = dir_ / "db.lmdb";
    write_lmdb(path, entries, 0, 2 << 20);
    const std::string whole = read_text(path);
    constexpr std::size_t kPage = 4096;
    const auto number = [&](std::size_t at) { return static_cast<unsigned char>(whole[at]) | whole[at + 1] << 8; };
    int refused = 0;
    for (const std::uint32_t far : {std::uint32_t{400}, std::uint32_t{3000}}) {  // within and beyond the map of 2 MiB
        for (std::size_t page = 2 * kPage; page < whole.size(); page += kPage) {
            const int nodes = (number(page + 12) - 16) / 2;
            if ((number(page + 10) & 1) == 0 || nodes < 20) {
                continue;
            }
            std::string changed = whole;
            // Damage the leaf at a key that opening does not look up.
            const std::size_t node = page + static_cast<std::size_t>(number(page + 16 + 2 * 12));
            std::memcpy(changed.data() + node, &far, sizeof far);
            write_file(path, changed);
            fs::resize_file(path, 16 << 20);
            const LmdbDataset dataset(path);
            Sample sample;
            for (std::int64_t i = 0; i < dataset.size(); ++i) {
                try {
                    dataset.read(i, sample);
                } catch (const Error& error) {  // the others stay readable
                    EXPECT_THAT(error.what(), HasSubstr("db.lmdb"));
                    ++refused;
                }
            }
        }
    }
    EXPECT_GT(refused, 0);
}

// A value whose size reaches beyond the pages in use.
TEST_F(LmdbDamage, ValuesBeyondTheFile) {
    const fs::path path = dir_ / "db.lmdb";
    write_lmdb(path, {{"a", png("1")}, {"b", png("2")}, {"length", std::string(5000, '1')}}, 0, 2 << 20);
    std::string whole = read_text(path);
    const std::size_t key = whole.find("length");
    ASSERT_NE(key, std::string::npos);
    whole.replace(key - 8, 4, std::string("\0\0\0\x7f", 4));
    write_file(path, whole);
    EXPECT_THAT(error_of<DataError>([&] { LmdbDataset(path).size(); }), HasSubstr("values within the"));
}

// The file with the meta pages of LMDB 1.0, whose page header has 24 bytes and not 16. Its tree keeps the old format.
std::string with_meta_of_lmdb1(std::string file) {
    constexpr std::size_t kMeta = 136;
    for (const std::size_t page : {0, 4096}) {
        std::string meta = file.substr(page + 16, kMeta);
        meta[4] = 3;  // the version
        file.replace(page, 24, std::string(18, '\0') + file.substr(page + 10, 2) + std::string(4, '\0'));
        file.replace(page + 24, kMeta, meta);
    }
    return file;
}

// Each byte of both meta pages is changed: an error or a data set, never a crash.
TEST_F(LmdbDamage, DamagedFirstPages) {
    write_lmdb(dir_ / "db.lmdb", {{"a", png("")}, {"b", png("")}});
    const std::string old = read_text(dir_ / "db.lmdb");
    write_file(dir_ / "newer.lmdb", with_meta_of_lmdb1(old));
    EXPECT_EQ(read_lmdb_meta(File(dir_ / "newer.lmdb"), "newer").format, LmdbFormat::v1_0);
    for (const std::string& whole : {old, with_meta_of_lmdb1(old)}) {
        for (std::size_t at = 16; at < 160; ++at) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
            damaged[4096 + at] = static_cast<char>(damaged[4096 + at] ^ 0x40);
            write_file(dir_ / "damaged.lmdb", damaged);
            try {
                const LmdbDataset dataset(dir_ / "damaged.lmdb");
                Sample sample;
                dataset.read(0, sample);
            } catch (const Error& error) {
                EXPECT_THAT(error.what(), HasSubstr("damaged.lmdb"));
            }
        }
    }
}

}  // namespace
}  // namespace stoker
