// The B-tree of an LMDB database, read from the map. liblmdb does not check the pages, and a damaged one makes it read
// any memory. Here every page must have the expected number and kind, and every node and value must lie within the
// file.
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

// Layout: a page is a header (16 bytes; 24 in LMDB 1.0), the offsets of its nodes (16 bits, in the order of the keys)
// and the nodes. A node is a header of 8 bytes and the key. In a branch the header holds the child's page number. In a
// leaf the value follows, or the number of its first overflow page, on which it begins after the page header.
class LmdbPage {
  public:
    struct Node {
        std::string_view key;
        std::uint64_t low = 0;  // first 32 bits of the header: in a leaf the value's size
        std::uint16_t flags = 0;
        std::size_t value = 0;  // its offset in the page

        std::uint64_t page() const { return std::uint64_t{flags} << 32 | low; }  // of a branch's child
    };

    explicit LmdbPage(std::span<const std::byte> bytes, LmdbFormat format = LmdbFormat::v0_9)
        : bytes_(bytes), format_(format) {}

    std::uint64_t number() const;
    bool branch() const;
    bool leaf() const;
    std::size_t nodes() const;  // 0 if the stored number is impossible
    // Node `at`; empty if there is none or it does not lie within the page. Checked on each call, since writers that do
    // not know of our transaction may change the page.
    std::optional<Node> node(std::size_t at) const;

    std::span<const std::byte> bytes() const { return bytes_; }
    std::size_t header() const { return format_ == LmdbFormat::v0_9 ? 16 : 24; }

  private:
    // The origin of offsets in the page.
    std::size_t base() const { return format_ == LmdbFormat::v0_9 ? 0 : header(); }
    std::uint16_t kind() const;

    std::span<const std::byte> bytes_;
    LmdbFormat format_;
};

struct LmdbEntry {
    std::string_view key;
    std::span<const std::byte> value;
};

// A view of pages that the caller keeps alive. find() and the Cursor throw DataError, with the offset, for a damaged
// tree.
class LmdbTree {
  public:
    LmdbTree() = default;
    // `pages`: the file from its beginning, up to the last page that `meta` says is used.
    LmdbTree(std::span<const std::byte> pages, const LmdbMeta& meta, std::string path);

    // The bytes of the page of that number, without reading them. Empty if it lies outside the file.
    std::span<const std::byte> page_bytes(std::uint64_t number) const;
    std::uint64_t page_count() const { return pages_.size() / page_size_; }
    // Empty if it lies outside the file or does not carry that number.
    std::optional<LmdbPage> page(std::uint64_t number) const;
    // The value of a leaf's node. Empty if it does not lie within the pages.
    std::optional<std::span<const std::byte>> value(const LmdbPage& page, const LmdbPage::Node& node) const;

    // The value of a key; empty if there is none.
    std::optional<std::span<const std::byte>> find(std::string_view key) const;

    std::uint64_t root() const { return root_; }
    std::size_t depth() const { return depth_; }  // levels from the root to the leaves, as the meta page says
    bool empty() const;

    // Walks the entries in the order of the keys. Each call returns an entry, or nothing beyond either end; after that,
    // call first(), last() or at_or_after().
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
    std::size_t lower_bound(const LmdbPage& page, std::string_view key) const;
    std::size_t child_of(const LmdbPage& page, std::string_view key) const;
    bool less(std::string_view key, std::string_view other) const;

    std::string path_;
    std::span<const std::byte> pages_;
    LmdbFormat format_ = LmdbFormat::v0_9;
    std::size_t page_size_ = 1;
    std::uint64_t root_ = 0;
    std::size_t depth_ = 0;
    bool from_end_ = false;  // keys are compared from their last byte on
};

}  // namespace stoker
