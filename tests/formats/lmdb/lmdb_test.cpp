// Databases written by liblmdb and read back: which keys are samples, their order, many threads, a concurrent writer.
#include "stoker/formats/lmdb/lmdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "formats/lmdb/lmdb_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "support/memory_room.h"
#include "support/page_cache.h"
#include "support/temp_dir.h"

namespace stoker::lmdb_test {
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

using Lmdb = testing::LmdbTest;

std::string text_of(const Sample& sample) {
    return {reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()};
}

std::vector<std::string> keys(const Dataset& dataset) {
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        list.push_back(dataset.key(i));
    }
    return list;
}

TEST_F(Lmdb, FoldersAndFiles) {
    const Entries entries = {{"b", png("1")}, {"a", png("22")}, {"__len__", "2"}, {"c", png("")}};
    write_lmdb(dir_ / "folder", entries);
    write_lmdb(dir_ / "file.lmdb", entries);
    fs::copy_file(dir_ / "file.lmdb", dir_ / "other.mdb");
    for (const char* name : {"folder", "file.lmdb", "other.mdb", "folder/data.mdb"}) {
        const auto dataset = open_dataset((dir_ / name).string(), Split::train);
        EXPECT_EQ(dataset->format(), "lmdb");
        EXPECT_THAT(keys(*dataset), ElementsAre("a", "b", "c"));
        EXPECT_EQ(dataset->path(), (dir_ / name).string());
        Sample sample;
        dataset->read(0, sample);
        EXPECT_TRUE(sample.encoded);
        EXPECT_EQ(text_of(sample), png("22"));
        EXPECT_EQ(sample.label, -1);
        EXPECT_EQ(dataset->label(0), std::nullopt);
        EXPECT_TRUE(dataset->classes().empty());
        EXPECT_GT(dataset->bytes(), 8000);
        EXPECT_THROW(dataset->read(3, sample), InvalidArgument);
        EXPECT_THROW(dataset->key(-1), InvalidArgument);
    }
    EXPECT_FALSE(fs::exists(dir_ / "folder/data.mdb-lock"));
    EXPECT_FALSE(has_splits((dir_ / "folder").string()));
}

TEST_F(Lmdb, ConsecutiveKeysAreRecognised) {
    EXPECT_EQ(find_key_sequence("0007", "0010", 4), (LmdbKeySequence{.prefix = "", .digits = 4, .first = 7}));
    EXPECT_EQ(find_key_sequence("a1-08", "a1-11", 4), (LmdbKeySequence{.prefix = "a1-", .digits = 2, .first = 8}));
    EXPECT_EQ(find_key_sequence("5", "5", 1), (LmdbKeySequence{.prefix = "", .digits = 1, .first = 5}));
    EXPECT_EQ(find_key_sequence("0007", "0010", 5), std::nullopt);
    EXPECT_EQ(find_key_sequence("0007", "010", 4), std::nullopt);
    EXPECT_EQ(find_key_sequence("a07", "b08", 2), std::nullopt);
    EXPECT_EQ(find_key_sequence("a", "a", 1), std::nullopt);
    EXPECT_EQ(find_key_sequence("0010", "0007", 4), std::nullopt);
    EXPECT_EQ(find_key_sequence(std::string(30, '0'), std::string(29, '0') + "3", 4),
              (LmdbKeySequence{.prefix = std::string(12, '0'), .digits = 18, .first = 0}));
    EXPECT_EQ(find_key_sequence(std::string(600, '0'), std::string(600, '0'), 1), std::nullopt);
}

// For keys of any kind: all of them, in bytewise order, each with its value.
TEST_F(Lmdb, AnySetOfKeys) {
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
        const int kind = round % 4;
        Entries entries;
        const int count = 1 + static_cast<int>(random() % 400);
        const int first = static_cast<int>(random() % 300);
        for (int i = first; i < first + count; ++i) {
            const int number = kind == 1 ? static_cast<int>(random() % 100000) : i;
            const std::string key = kind == 2   ? fmt::format("{}", number)
                                    : kind == 3 ? fmt::format("x-{:03}.{}", number, number % 7)
                                                : fmt::format("{:06}", number);
            entries[key] = png(std::string(random() % 3000, 'v') + key);
        }
        if (round % 8 < 4 && entries.size() > 3) {  // a gap, and another key elsewhere
            entries.erase(std::next(entries.begin()));
            entries["~"] = png("~");
        }
        const fs::path path = dir_ / fmt::format("{}.lmdb", round);
        Entries stored = entries;
        for (const char* other : {"__len__", "__keys__", "num-samples", "length"}) {
            if (random() % 2 == 0) {
                stored[other] = "12";
            }
        }
        write_lmdb(path, stored);
        const LmdbDataset dataset(path);
        ASSERT_EQ(dataset.size(), static_cast<std::int64_t>(entries.size())) << round;
        Sample sample;
        for (std::int64_t i = 0; const auto& [key, value] : entries) {
            EXPECT_EQ(dataset.key(i), key);
            dataset.read(i++, sample);
            EXPECT_EQ(text_of(sample), value);
        }
    }
}

// LmdbLeaves and LmdbTree find the same values, after insertions in random order, which leave pages half empty, and
// removals, which leave keys in branches that no leaf has.
TEST_F(Lmdb, LeavesFindWhatTheTreeFinds) {
    std::mt19937 random(3);
    for (int round = 0; round < 12; ++round) {
        const fs::path path = dir_ / fmt::format("{}", round);
        std::vector<int> numbers(static_cast<std::size_t>(2000 + random() % 4000));
        std::iota(numbers.begin(), numbers.end(), 17);
        const std::size_t longest = round % 3 == 0 ? 40 : round % 3 == 1 ? 900 : 6000;
        const char* prefix = round % 2 == 0 ? "" : "image-";
        const auto batch = [&](std::size_t count) {
            Entries entries;
            for (std::size_t i = 0; i < count; ++i) {
                const int number = numbers[i];
                entries[fmt::format("{}{:06}", prefix, number)] = png(std::string(random() % longest, 'v'));
            }
            return entries;
        };
        if (round % 4 >= 2) {
            std::ranges::shuffle(numbers, random);
        }
        write_lmdb(path, batch(numbers.size() / 2));
        write_lmdb(path, batch(numbers.size()));
        for (std::size_t i = 0; i < numbers.size(); i += 400) {
            remove_lmdb(path, batch(i + 1));
        }
        write_lmdb(path, batch(numbers.size()));
        write_lmdb(path, {{"__len__", "x"}, {"__keys__", std::string(10'000, 'k')}});
        const LmdbSnapshot snapshot(path / "data.mdb");
        const LmdbKeys keys(snapshot);
        const LmdbLeaves leaves(snapshot.tree(), keys);
        ASSERT_TRUE(keys.sequential());
        LmdbKeys::Memory memory;
        std::int64_t found = 0;
        for (std::int64_t i = 0; i < keys.size(); ++i) {
            const auto direct = leaves.find(i, keys.at(i, memory));
            const auto slow = snapshot.tree().find(keys.at(i, memory));
            ASSERT_TRUE(slow.has_value());
            if (direct) {
                ++found;
                ASSERT_EQ(direct->data(), slow->data());
                ASSERT_EQ(direct->size(), slow->size());
            }
        }
        EXPECT_GT(found, keys.size() / 2) << round;
    }
}

TEST_F(Lmdb, LabelsBesideImages) {
    Entries entries = {{"num-samples", "12"}, {"other", "text"}};
    for (int i = 1; i <= 12; ++i) {
        entries[fmt::format("image-{:09}", i)] = png(std::to_string(i));
        entries[fmt::format("label-{:09}", i)] = i == 3 ? "word" : std::to_string(i % 5);
    }
    for (const char* without : {"other", "label-000000007", "image-000000005"}) {
        entries.erase(without);
        write_lmdb(dir_ / without, entries);
        const LmdbDataset dataset(dir_ / without);
        const bool gap = without == "image-000000005"s;
        ASSERT_EQ(dataset.size(), gap ? 11 : 12);
        Sample sample;
        for (std::int64_t i = 0; i < dataset.size(); ++i) {
            const std::int64_t number = i + 1 + (gap && i >= 4 ? 1 : 0);
            EXPECT_EQ(dataset.key(i), fmt::format("image-{:09}", number));
            dataset.read(i, sample);
            EXPECT_EQ(text_of(sample), png(std::to_string(number)));
            const bool none = number == 3 || (number == 7 && without != "other"s);
            EXPECT_EQ(sample.label, none ? -1 : number % 5);
            EXPECT_EQ(dataset.label(i), sample.label);
        }
    }
}

TEST_F(Lmdb, KeysArePrintable) {
    write_lmdb(dir_ / "db", {{"\0\1"s, png("")}, {"\xe7\x8c\xab", png("")}, {"\xff", png("")}, {"a\nb", png("")}});
    EXPECT_THAT(keys(LmdbDataset(dir_ / "db")), ElementsAre("\\x00\\x01", "a\\x0ab", "\xe7\x8c\xab", "\\xff"));
}

TEST_F(Lmdb, ClassesFromAList) {
    const std::string pickled = "\x80\x04\x95\x0f\0\0\0\0\0\0\0]\x94(\x8c\3cat\x94\x8c\3dog\x94"s + "e.";
    for (const std::string& list : {"[\"cat\", \"dog\"]"s, pickled}) {
        const TempDir dir;
        write_lmdb(dir / "db", {{"0", png("")}, {"__classes__", list}});
        EXPECT_THAT(LmdbDataset(dir / "db").classes(), ElementsAre("cat", "dog"));
    }
    write_lmdb(dir_ / "numbers", {{"0", png("")}, {"__classes__", "[1, 2]"}});
    EXPECT_TRUE(LmdbDataset(dir_ / "numbers").classes().empty());
    write_lmdb(dir_ / "wide", {{"0", png("")}, {"__classes__", "[" + std::string(4'000'000, ' ') + "]"}});
    EXPECT_TRUE(LmdbDataset(dir_ / "wide").classes().empty());
    const testing::MemoryRoom room(100 * testing::kMiB);  // parsed JSON takes far more memory than its text
    EXPECT_THROW(LmdbDataset(dir_ / "wide"), MemoryError);
}

TEST_F(Lmdb, OneClassManyTimesIsNotCopied) {
    std::string list = "X"s + "\0\0\x10\0"s + std::string(1 << 20, 'c') + "q\0"s + "0](";
    for (int i = 0; i < 3000; ++i) {
        list += "h\0"s;
    }
    write_lmdb(dir_ / "db", {{"0", png("")}, {"__classes__", list + "e."}});
    EXPECT_THROW(LmdbDataset(dir_ / "db"), DataError);
}

TEST_F(Lmdb, LargeValuesThatAreNotInMemoryAreRead) {
    const std::string large = png(std::string(200'000, 'l'));
    write_lmdb(dir_ / "db", {{"0", large}, {"1", png("small")}, {"2", png(std::string(10'000, 'm'))}});
    const fs::path file = dir_ / "db/data.mdb";
    const std::size_t begin = read_text(file).find(large);  // a busy system may keep these pages and drop others
    ASSERT_NE(begin, std::string::npos);
    const auto seen = testing::read_cold_and_warm(file, begin, large.size(), [&] {
        const auto dataset = std::make_shared<LmdbDataset>(dir_ / "db");
        Sample small;
        dataset->read(1, small);  // maps its page, so that a later access brings in no neighbours
        return [&, dataset] {
            Sample sample;
            dataset->read(0, sample);
            EXPECT_EQ(text_of(sample), large);
            return sample.bytes.data() == sample.storage.data();
        };
    });
    EXPECT_EQ(seen.copied_cold, seen.was_cold);
    EXPECT_TRUE(seen.viewed_warm);
    const LmdbDataset dataset(dir_ / "db");
    Sample sample;
    Sample other;
    dataset.read(1, sample);
    dataset.read(2, other);
    EXPECT_EQ(text_of(sample), png("small"));
    EXPECT_NE(sample.bytes.data(), sample.storage.data());
    EXPECT_EQ(text_of(other).size(), 10'008);
}

TEST_F(Lmdb, ManyThreadsAndTwoDatasetsOfOneFile) {
    Entries entries;
    for (int i = 0; i < 2000; ++i) {
        entries[fmt::format("{:04}", i)] =
            png(std::string(static_cast<std::size_t>(i % 50) * 700, 'x') + std::to_string(i));
    }
    write_lmdb(dir_ / "db", entries);
    const LmdbDataset dataset(dir_ / "db");
    auto second = std::make_unique<LmdbDataset>(dir_ / "db/data.mdb");
    std::vector<std::jthread> threads;
    std::atomic<int> wrong{0};
    for (unsigned t = 0; t < 40; ++t) {  // more than there are record readers
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            Sample sample;
            for (int k = 0; k < 300; ++k) {
                const auto i = static_cast<std::int64_t>(random() % 2000);
                (t % 2 == 0 ? dataset : *second).read(i, sample);
                wrong += text_of(sample) == entries[fmt::format("{:04}", i)] ? 0 : 1;
            }
        });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
    second.reset();
    Sample sample;
    dataset.read(5, sample);  // the shared environment is still open
    EXPECT_EQ(text_of(sample), entries["0005"]);
}

// The writer is another process.
TEST_F(Lmdb, AWriterDoesNotChangeAnOpenDataset) {
    const fs::path path = dir_ / "db";
    Entries entries;
    for (int i = 0; i < 500; ++i) {
        entries[fmt::format("{:03}", i)] = png(fmt::format("old {}", i));
    }
    write_lmdb(path, entries);
    const LmdbDataset dataset(path);
    Sample held;
    dataset.read(7, held);
    const auto rewrite = [&] {
        Entries changed = entries;
        for (auto& [key, value] : changed) {
            value = png("new");
        }
        changed["999"] = png("added");
        for (int i = 0; i < 5; ++i) {  // pages are reused from the third transaction on
            write_lmdb(path, changed);
        }
        std::_Exit(0);
    };
    EXPECT_EXIT(rewrite(), ::testing::ExitedWithCode(0), "");
    EXPECT_EQ(text_of(held), png("old 7"));
    std::vector<std::jthread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            Sample sample;
            for (std::int64_t i = 0; i < dataset.size(); ++i) {
                dataset.read(i, sample);
                wrong += text_of(sample) == png(fmt::format("old {}", i)) ? 0 : 1;
            }
        });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(dataset.size(), 500);
    const LmdbDataset fresh(path);
    EXPECT_EQ(fresh.size(), 501);
    fresh.read(7, held);
    EXPECT_EQ(text_of(held), png("new"));
}

// The reader table is shared memory, and a forked child has copies of the parent's entries.
TEST_F(Lmdb, AForkKeepsTheParentsTransactions) {
    const fs::path path = dir_ / "db";
    write_lmdb(path, {{"a", png("1")}, {"b", png("2")}});
    auto dataset = std::make_unique<LmdbDataset>(path);
    const std::string own = fmt::format(" {} ", ::getpid());
    // In another process, because one process must not open the file twice.
    const auto count_readers = [&] {
        MDB_env* env = nullptr;
        ::mdb_env_create(&env);
        ::mdb_env_open(env, path.c_str(), MDB_RDONLY, 0644);
        std::string list;
        ::mdb_reader_list(
            env,
            [](const char* line, void* all) {
                *static_cast<std::string*>(all) += line;
                return 0;
            },
            &list);
        int found = 0;
        for (std::size_t at = list.find(own); at != std::string::npos; at = list.find(own, at + 1)) {
            ++found;
        }
        std::_Exit(found);
    };
    const auto drop = [&] {
        dataset.reset();
        std::_Exit(0);
    };
    int before = 0;
    const auto keep = [&](int status) {
        before = WEXITSTATUS(status);
        return WIFEXITED(status);
    };
    EXPECT_EXIT(count_readers(), keep, "");
    EXPECT_GT(before, 0);
    EXPECT_EXIT(drop(), ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(count_readers(), ::testing::ExitedWithCode(before), "");
    dataset.reset();
    EXPECT_EXIT(count_readers(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Lmdb, TheListOfKeysOfANewFileIsNotKept) {
    Entries entries;
    for (int i = 0; i < 12'000; ++i) {
        entries[fmt::format("k{}", i)] = png("");
    }
    const auto begin = std::chrono::steady_clock::now();
    write_lmdb(dir_ / "db", entries);
    EXPECT_EQ(LmdbDataset(dir_ / "db").size(), 12'000);
    if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)) {  // else the file may count as settled
        EXPECT_FALSE(fs::exists(cache_ / "c/lmdb_index"));
    }
    // Another file with the same content, size and time of change has another stamp.
    fs::create_directories(dir_ / "other");
    fs::copy_file(dir_ / "db/data.mdb", dir_ / "other/data.mdb");
    fs::last_write_time(dir_ / "other/data.mdb", fs::last_write_time(dir_ / "db/data.mdb"));
    EXPECT_NE(LmdbSnapshot(dir_ / "db/data.mdb").stamp(), LmdbSnapshot(dir_ / "other/data.mdb").stamp());
}

TEST_F(Lmdb, TheListOfKeysIsKept) {
    Entries entries;
    for (int i = 0; i < 12'000; ++i) {
        entries[fmt::format("k{}", i)] = png("");
    }
    write_lmdb(dir_ / "db", entries);
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));  // until the file counts as settled
    const std::vector<std::string> expected = keys(LmdbDataset(dir_ / "db"));
    const fs::path kept = cache_ / "c/lmdb_index";
    ASSERT_EQ(std::distance(fs::directory_iterator(kept), fs::directory_iterator()), 1);
    EXPECT_EQ(keys(LmdbDataset(dir_ / "db")), expected);
    write_lmdb(dir_ / "db", {{"k1a", png("")}});
    const LmdbDataset changed(dir_ / "db");
    EXPECT_EQ(changed.size(), 12'001);
    entries["k1a"] = "";
    std::vector<std::string> all;
    for (const auto& [key, value] : entries) {
        all.push_back(key);
    }
    EXPECT_EQ(keys(changed), all);
    fs::remove_all(cache_ / "c");
    std::ofstream(cache_ / "c") << "no folder";  // the cache folder cannot be created
    EXPECT_EQ(keys(LmdbDataset(dir_ / "db")), all);
}

}  // namespace
}  // namespace stoker::lmdb_test
