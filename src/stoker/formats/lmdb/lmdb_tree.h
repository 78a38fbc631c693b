// The B-tree of an LMDB database, read where it is mapped. liblmdb trusts every byte of its file, and a damaged page
// makes it read anywhere; here each page must be the one it is taken for, and each node and value lie within the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/lmdb/lmdb_meta.h"

namespace stoker {

// Layout of LMDB 0.9: a page is a header of 16 bytes, the offsets of its nodes (16 bits each, in the order of the
// keys) and the nodes. A node is a header of 8 bytes, the key, and in a leaf the value, or the number of the page on
// which it begins behind a header of its own. A node of a branch has a page's number in its header.
class LmdbPage {
  public:
    struct Node {
        std::string_view key;
        std::uint64_t low = 0;  // the first 32 bits of its header
        std::uint16_t flags = 0;
        std::size_t end = 0;  // of the key, within the page

        std::uint64_t page() const { return std::uint64_t{flags} << 32 | low; }  // of a branch's
    };

    explicit LmdbPage(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::uint64_t number() const;
    bool branch() const;
    bool leaf() const;
    std::size_t nodes() const;  // 0 where their number cannot be
    // Node `at`, if there is one and it lies within the page. (Where a writer does not know of us, a page may change
    // from one look to the next.)
    std::optional<Node> node(std::size_t at) const;

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;
};

struct LmdbEntry {
    std::string_view key;
    std::span<const std::byte> value;
};

// A const view; whoever makes it keeps the pages. find() and the Cursor throw DataError, with the place, where the
// tree is damaged.
class LmdbTree {
  public:
    LmdbTree() = default;
    // `pages`: of the state that `meta` describes, from the file's begin on.
    LmdbTree(std::span<const std::byte> pages, const LmdbMeta& meta, std::string path);

    // Where the page of that number lies: no byte of it is read. Empty where it would lie outside.
    std::span<const std::byte> place(std::uint64_t number) const;
    std::uint64_t page_count() const { return pages_.size() / page_size_; }
    // Empty where there is no page of that number.
    std::optional<LmdbPage> page(std::uint64_t number) const;
    // Of a leaf's node. Empty where it does not lie in the pages.
    std::optional<std::span<const std::byte>> value(const LmdbPage& page, const LmdbPage::Node& node) const;

    // The value under a key; empty where there is none.
    std::optional<std::span<const std::byte>> find(std::string_view key) const;

    std::uint64_t root() const { return root_; }
    bool empty() const;

    // A walk in the order of the keys. Each step gives an entry, or nothing at either end, after which a new walk has
    // to begin.
    class Cursor {
      public:
        explicit Cursor(const LmdbTree& tree) : tree_(&tree) {}
        std::optional<LmdbEntry> first();
        std::optional<LmdbEntry> last();
        std::optional<LmdbEntry> at_or_after(std::string_view key);
        std::optional<LmdbEntry> next() { return step(true); }
        std::optional<LmdbEntry> previous() { return step(false); }

      private:
        struct Level {
            LmdbPage page;
            std::size_t at = 0;
        };

        template <typename Pick>
        void descend(std::uint64_t page, Pick pick);
        std::optional<LmdbEntry> step(bool forward);
        LmdbEntry entry() const;

        const LmdbTree* tree_;
        std::vector<Level> levels_;  // from the root to a leaf
    };

  private:
    [[noreturn]] void fail(std::uint64_t page, const char* expected) const;
    LmdbPage checked_page(std::uint64_t number, bool leaf) const;
    LmdbPage::Node checked_node(const LmdbPage& page, std::size_t at) const;
    LmdbEntry entry(const LmdbPage& page, std::size_t at) const;
    std::size_t first_not_below(const LmdbPage& page, std::string_view key) const;
    std::size_t child_of(const LmdbPage& page, std::string_view key) const;
    bool below(std::string_view key, std::string_view other) const;

    std::string path_;
    std::span<const std::byte> pages_;
    std::size_t page_size_ = 1;
    std::uint64_t root_ = 0;
    std::size_t depth_ = 0;
    bool from_end_ = false;  // keys are compared from their last byte on
};

}  // namespace stoker
