// LmdbTree gives the same as liblmdb: walks in both directions, look-ups and positions between keys, for trees of many
// shapes and key orders. Damaged trees give an error with the place, or entries within the pages.
#include "stoker/formats/lmdb/lmdb_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "formats/lmdb/lmdb_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/formats/lmdb/lmdb.h"
#include "stoker/formats/lmdb/lmdb_snapshot.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::as_val;
using testing::change_lmdb;
using testing::error_of;
using ::testing::HasSubstr;
using testing::png;
using testing::remove_lmdb;
using testing::write_lmdb;
using Texts = std::vector<std::pair<std::string, std::string>>;

class Tree : public testing::LmdbTest {
  protected:
    // All entries, from liblmdb.
    static Texts listed(const fs::path& path, unsigned flags) {
        Texts all;
        change_lmdb(path, flags, [&](MDB_txn* txn, MDB_dbi dbi, auto check) {
            MDB_cursor* cursor = nullptr;
            check(::mdb_cursor_open(txn, dbi, &cursor));
            MDB_val key{};
            MDB_val value{};
            while (::mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_SUCCESS) {
                all.emplace_back(std::string(static_cast<const char*>(key.mv_data), key.mv_size),
                                 std::string(static_cast<const char*>(value.mv_data), value.mv_size));
            }
            ::mdb_cursor_close(cursor);
        });
        return all;
    }

    static std::string text(std::span<const std::byte> bytes) {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    static std::string random_text(std::mt19937& random, std::size_t least, std::size_t most) {
        std::string text(least + random() % (most - least + 1), '\0');
        std::ranges::generate(text, [&] { return static_cast<char>(random() % 256); });
        return text;
    }
};

TEST_F(Tree, WalksAndLookUpsGiveWhatLiblmdbGives) {
    std::mt19937 random(11);
    for (int round = 0; round < 24; ++round) {
        const unsigned flags = round % 3 == 0 ? 0U : round % 3 == 1 ? MDB_REVERSEKEY : MDB_INTEGERKEY;
        const fs::path path = dir_ / fmt::format("{}.lmdb", round);
        std::map<std::string, std::string> entries;
        const std::size_t longest_key = round % 4 == 0 ? 500 : 12;  // long ones make deep trees
        const auto key = [&] {
            return flags == MDB_INTEGERKEY ? random_text(random, 8, 8) : random_text(random, 1, longest_key);
        };
        for (std::size_t i = random() % 1500; i > 0; --i) {
            entries[key()] = random_text(random, 0, round % 2 == 0 ? 40 : 5000);
        }
        write_lmdb(path, entries, flags);
        for (int again = 0; again < round % 4; ++again) {  // pages that were merged, freed and used again
            std::map<std::string, std::string> some;
            for (auto entry = entries.begin(); entry != entries.end();) {
                if (random() % 3 == 0) {
                    some.insert(*entry);
                    entry = entries.erase(entry);
                } else {
                    ++entry;
                }
            }
            remove_lmdb(path, some);
            for (std::size_t i = random() % 200; i > 0; --i) {
                entries[key()] = random_text(random, 0, 9000);
            }
            write_lmdb(path, entries, flags);
        }
        const Texts expected = listed(path, flags);
        ASSERT_EQ(expected.size(), entries.size());

        const LmdbSnapshot snapshot(path);
        const LmdbTree& tree = snapshot.tree();
        EXPECT_EQ(tree.empty(), entries.empty());
        Texts forward;
        LmdbTree::Cursor cursor(tree);
        for (auto entry = cursor.first(); entry; entry = cursor.next()) {
            forward.emplace_back(entry->key, text(entry->value));
        }
        EXPECT_TRUE(forward == expected) << round;
        Texts backward;
        for (auto entry = cursor.last(); entry; entry = cursor.previous()) {
            backward.emplace_back(entry->key, text(entry->value));
        }
        std::ranges::reverse(backward);
        EXPECT_TRUE(backward == expected) << round;
        for (const auto& [name, value] : expected) {
            const auto found = tree.find(name);
            ASSERT_TRUE(found.has_value());
            EXPECT_TRUE(text(*found) == value);
        }
        change_lmdb(path, flags, [&](MDB_txn* txn, MDB_dbi dbi, auto check) {
            MDB_cursor* own = nullptr;
            check(::mdb_cursor_open(txn, dbi, &own));
            for (int i = 0; i < 300; ++i) {
                const std::string name = key();
                MDB_val found_key = as_val(name);
                MDB_val value{};
                const bool found = ::mdb_cursor_get(own, &found_key, &value, MDB_SET_RANGE) == MDB_SUCCESS;
                const auto entry = cursor.at_or_after(name);
                ASSERT_EQ(entry.has_value(), found);
                if (found) {
                    EXPECT_EQ(entry->key,
                              std::string_view(static_cast<const char*>(found_key.mv_data), found_key.mv_size));
                    const auto before = cursor.previous();
                    EXPECT_EQ(before.has_value(), entry->key != expected[0].first);
                }
                EXPECT_EQ(tree.find(name).has_value(), entries.contains(name));
            }
            ::mdb_cursor_close(own);
        });
    }
}

TEST_F(Tree, NamedDatabasesAreRefused) {
    const fs::path path = dir_ / "named.lmdb";
    MDB_env* env = nullptr;
    ASSERT_EQ(::mdb_env_create(&env), MDB_SUCCESS);
    ASSERT_EQ(::mdb_env_set_maxdbs(env, 2), MDB_SUCCESS);
    ASSERT_EQ(::mdb_env_open(env, path.c_str(), MDB_NOSUBDIR, 0644), MDB_SUCCESS);
    MDB_txn* txn = nullptr;
    ASSERT_EQ(::mdb_txn_begin(env, nullptr, 0, &txn), MDB_SUCCESS);
    MDB_dbi dbi = 0;
    ASSERT_EQ(::mdb_dbi_open(txn, "train", MDB_CREATE, &dbi), MDB_SUCCESS);
    ASSERT_EQ(::mdb_txn_commit(txn), MDB_SUCCESS);
    ::mdb_env_close(env);
    EXPECT_THAT(error_of<Unsupported>([&] { LmdbDataset(path).size(); }), HasSubstr("a named database \"train\""));
}

// Walks the tree in both directions and reads all samples. Returns the number of errors.
int use(const fs::path& path, std::size_t most_keys) {
    int refused = 0;
    const auto attempt = [&](const std::function<void()>& action) {
        try {
            action();
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(path.filename().string()));
            ++refused;
        }
    };
    attempt([&] {
        const LmdbSnapshot snapshot(path);
        for (const bool forward : {true, false}) {
            attempt([&] {
                LmdbTree::Cursor cursor(snapshot.tree());
                std::size_t walked = 0;
                std::uint64_t hash = 0;
                for (auto entry = forward ? cursor.first() : cursor.last(); entry;
                     entry = forward ? cursor.next() : cursor.previous()) {
                    hash = hash_bytes(entry->value, hash);  // every byte can be read
                    ++walked;
                }
                EXPECT_LE(walked, most_keys);
                EXPECT_EQ(hash == 0, walked == 0);
            });
        }
        const LmdbDataset dataset(path);
        Sample sample;
        for (std::int64_t i = 0; i < dataset.size(); ++i) {
            attempt([&] { dataset.read(i, sample); });
        }
    });
    return refused;
}

TEST_F(Tree, DamageIsAnErrorOrAnotherEntry) {
    std::mt19937 random(5);
    for (const bool row : {true, false}) {
        std::map<std::string, std::string> entries;
        for (int i = 0; i < 600; ++i) {
            entries[row ? fmt::format("{:05}", i) : random_text(random, 20, 200)] =
                png(std::string(random() % 9000, 'x'));
        }
        const fs::path path = dir_ / "damaged.lmdb";
        fs::remove(path);
        write_lmdb(path, entries);
        const std::string whole = read_text(path);
        std::vector<std::size_t> pages;  // pages of the tree, whose damage matters
        for (std::size_t at = 0; at < whole.size(); at += 4096) {
            std::uint64_t number = 0;
            std::memcpy(&number, whole.data() + at, sizeof number);
            const int kind = static_cast<unsigned char>(whole[at + 10]);
            if (number == at / 4096 && (kind == 1 || kind == 2)) {
                pages.push_back(at);
            }
        }
        int refused = 0;
        for (int round = 0; round < 150; ++round) {
            std::string damaged = whole;
            const std::size_t size = std::size_t{1} << random() % 8;
            // Half of the damage is in headers and offsets.
            const std::size_t within = random() % (random() % 2 == 0 ? 64 : 4096 - size);
            const std::size_t at = pages[random() % pages.size()] + within;
            for (std::size_t i = at; i < at + size; ++i) {
                damaged[i] = static_cast<char>(random() % 3 == 0 ? random() : damaged[i] ^ 0xff);
            }
            write_file(path, damaged);
            refused += use(path, 5000) > 0 ? 1 : 0;
        }
        EXPECT_GT(refused, 20);
    }
}

// Pages of 512 bytes in the format of LMDB 1.0, laid out as its MDB_page and MDB_node.
class PagesOfLmdb1 {
  public:
    static constexpr std::size_t kPage = 512;

    // The nodes (key, what follows it) of a leaf or a branch; `low` is the first number of each node.
    struct Node {
        std::string key;
        std::string rest;
        std::uint64_t low;
        std::uint16_t flags = 0;
    };

    void add(std::uint16_t kind, const std::vector<Node>& nodes) {
        constexpr std::size_t kHeader = 24;
        std::string page(kPage, '\0');
        const auto put = [&page](std::size_t at, auto number) {
            std::memcpy(page.data() + at, &number, sizeof number);
        };
        put(0, std::uint64_t{bytes_.size() / kPage});
        put(18, kind);
        put(20, static_cast<std::uint16_t>(2 * nodes.size()));
        std::size_t end = kPage;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            const Node& node = nodes[i];
            const std::size_t even_key = node.key.size() + node.key.size() % 2;
            end -= (8 + even_key + node.rest.size() + 1) / 2 * 2;
            put(kHeader + 2 * i, static_cast<std::uint16_t>(end - kHeader));
            put(end, static_cast<std::uint32_t>(node.low));
            put(end + 4, node.flags);
            put(end + 6, static_cast<std::uint16_t>(node.key.size()));
            page.replace(end + 8, node.key.size(), node.key);
            page.replace(end + 8 + even_key, node.rest.size(), node.rest);
        }
        bytes_ += page;
    }

    // Overflow pages of a value.
    std::string add_large(const std::string& value) {
        std::uint64_t number = bytes_.size() / kPage;
        std::string place(24, '\0');  // the page's number, its transaction and the number of pages
        std::memcpy(place.data(), &number, sizeof number);
        bytes_ += std::string(24, '\0') + value;
        bytes_.resize((bytes_.size() + kPage - 1) / kPage * kPage);
        return place;
    }

    std::string& bytes() { return bytes_; }
    LmdbTree tree(std::uint64_t root) const {
        const LmdbMeta meta{.format = LmdbFormat::v1_0, .page_size = kPage, .root = root, .depth = 2};
        return {std::as_bytes(std::span(bytes_)), meta, "pages"};
    }

  private:
    std::string bytes_;
};

TEST(TreeOfLmdb1, GivesItsEntriesAndSurvivesDamage) {
    PagesOfLmdb1 pages;
    const std::string large(1300, 'L');
    pages.add(0x02, {{"a", "one", 3}, {"bcd", "", 0}, {"ef", "even", 4}});
    const std::string place = pages.add_large(large);
    pages.add(0x02, {{"g", place, 1300, 0x01}, {"hij", "odd", 3}});
    const std::uint64_t last = pages.bytes().size() / PagesOfLmdb1::kPage - 1;
    pages.add(0x01, {{"", "", 0}, {"g", "", last}});
    const Texts expected = {{"a", "one"}, {"bcd", ""}, {"ef", "even"}, {"g", large}, {"hij", "odd"}};

    const auto walk = [&] {
        const std::span<const std::byte> all = std::as_bytes(std::span(pages.bytes()));
        const LmdbTree tree = pages.tree(last + 1);
        Texts found;
        LmdbTree::Cursor cursor(tree);
        for (auto entry = cursor.first(); entry; entry = cursor.next()) {
            EXPECT_TRUE(entry->value.empty() || (entry->value.data() >= all.data() &&
                                                 entry->value.data() + entry->value.size() <= all.data() + all.size()));
            found.emplace_back(entry->key,
                               std::string(reinterpret_cast<const char*>(entry->value.data()), entry->value.size()));
        }
        return found;
    };
    EXPECT_EQ(walk(), expected);
    EXPECT_EQ(pages.tree(last + 1).find("g")->size(), large.size());
    EXPECT_FALSE(pages.tree(last + 1).find("f").has_value());

    const std::string whole = pages.bytes();
    std::mt19937 random(5);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
        pages.bytes() = whole;
        for (int change = 0; change < 3; ++change) {
            const std::size_t page = random() % (whole.size() / PagesOfLmdb1::kPage) * PagesOfLmdb1::kPage;
            const std::size_t head = random() % 40;
            pages.bytes()[page + (random() % 2 == 0 ? head : random() % PagesOfLmdb1::kPage)] =
                static_cast<char>(random() % 256);
        }
        try {
            walk();
        } catch (const Error&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 300);
}

// One page in use and a map of one page: liblmdb would read the second one.
TEST_F(Tree, AFileOfOnePageIsRefused) {
    const fs::path path = dir_ / "db.lmdb";
    write_lmdb(path, {{"a", png("")}});
    std::string whole = read_text(path);
    const std::uint64_t map_size = 4096;
    const std::uint64_t last_page = 0;
    for (const std::size_t page : {0, 4096}) {
        std::memcpy(whole.data() + page + 32, &map_size, sizeof map_size);
        std::memcpy(whole.data() + page + 136, &last_page, sizeof last_page);
    }
    write_file(path, whole);
    EXPECT_THAT(error_of<DataError>([&] { LmdbSnapshot{path}; }), HasSubstr("expected at least two pages"));
}

// Opening reads the branches and the first leaf of each, but not all leaves.
TEST_F(Tree, OpeningDoesNotReadAllLeaves) {
    std::map<std::string, std::string> entries;
    for (int i = 0; i < 3000; ++i) {
        entries[fmt::format("{:05}", i)] = png(std::string(700, 'x'));
    }
    const fs::path path = dir_ / "db.lmdb";
    write_lmdb(path, entries);
    std::string whole = read_text(path);
    const fs::path spoilt = dir_ / "spoilt.lmdb";
    const auto opens = [&] {
        write_file(spoilt, whole);
        try {
            return LmdbKeys(LmdbSnapshot(spoilt)).size() == 3000;
        } catch (const DataError&) {
            return false;
        }
    };
    int count = 0;
    for (std::size_t page = 2; page < whole.size() / 4096; page += 50) {  // leaves whose keys opening does not ask for
        char& number = whole[page * 4096];
        if (whole[page * 4096 + 10] == 2) {
            number = static_cast<char>(number ^ 0x55);
            opens() ? static_cast<void>(++count) : static_cast<void>(number = static_cast<char>(number ^ 0x55));
        }
    }
    ASSERT_GT(count, 3);
    ASSERT_TRUE(opens());
    const LmdbSnapshot snapshot(spoilt);
    const LmdbKeys keys(snapshot);
    EXPECT_GT(LmdbLeaves(snapshot.tree(), keys).size(), 400U);
}

TEST_F(Tree, AWalkThroughACircleEnds) {
    std::map<std::string, std::string> entries;
    for (int i = 0; i < 400; ++i) {
        entries[fmt::format("{:0200}", i)] = "v";
    }
    const fs::path path = dir_ / "db.lmdb";
    write_lmdb(path, entries);
    std::string whole = read_text(path);
    const LmdbSnapshot snapshot(path);
    const std::uint64_t root = snapshot.tree().root();
    const auto page = snapshot.tree().page(root);
    ASSERT_TRUE(page && page->branch());
    // All nodes of the root get the first child's page.
    for (std::size_t at = 1; at < page->nodes(); ++at) {
        std::uint16_t first = 0;
        std::uint16_t offset = 0;
        std::memcpy(&first, whole.data() + root * 4096 + 16, sizeof first);
        std::memcpy(&offset, whole.data() + root * 4096 + 16 + 2 * at, sizeof offset);
        std::memcpy(whole.data() + root * 4096 + offset, whole.data() + root * 4096 + first, 6);
    }
    write_file(dir_ / "again.lmdb", whole);
    const LmdbSnapshot again(dir_ / "again.lmdb");
    const auto walk = [&] {
        LmdbTree::Cursor cursor(again.tree());
        for (auto entry = cursor.first(); entry; entry = cursor.next()) {
        }
    };
    EXPECT_THAT(error_of<DataError>(walk), AllOf(HasSubstr("keys in ascending order"), HasSubstr("copy it again")));
}

// A branch page that is its own first child, in a file of so many pages that one level for each overflows the stack.
TEST_F(Tree, AWalkThroughACircleHasTheTreesDepth) {
    std::map<std::string, std::string> entries;
    for (int i = 0; i < 40; ++i) {
        entries[fmt::format("{:05}", i)] = png("");
    }
    write_lmdb(dir_ / "db.lmdb", entries);
    const LmdbSnapshot snapshot(dir_ / "db.lmdb");
    const LmdbKeys keys(snapshot);
    ASSERT_TRUE(keys.sequential());
    constexpr std::size_t kPage = 256;
    std::vector<std::byte> pages(200'000 * kPage);
    const auto store = [&](std::size_t at, std::uint16_t number) {
        std::memcpy(pages.data() + kPage + at, &number, sizeof number);
    };
    store(0, 1);     // the page's number
    store(10, 1);    // a branch
    store(12, 18);   // the end of the offsets of its nodes: one node
    store(16, 200);  // which lies here, and leads to page 1
    store(200, 1);
    const LmdbTree tree(pages, {.page_size = kPage, .root = 1, .depth = 2}, "circle");
    EXPECT_EQ(LmdbLeaves(tree, keys).size(), 0U);
}

}  // namespace
}  // namespace stoker
