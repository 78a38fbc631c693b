// Where in the file each key of a row lies, without a descent through the B-tree. Its branch pages, a two-hundredth of
// the file, name the first key of every leaf page; in a row of keys the place within the leaf follows from that. A
// look-up then touches one page of the database instead of four.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stoker/formats/lmdb/lmdb_keys.h"
#include "stoker/formats/lmdb/lmdb_tree.h"

namespace stoker {

class LmdbLeaves {
  public:
    // Reads the branch pages. Knows nothing where they are not as expected, or keys are in no row.
    LmdbLeaves(const LmdbTree& tree, const LmdbKeys& keys);

    // The value of key `index`, whose text is `key`; empty where the tree has to be asked: where the page is
    // damaged, or the key is not where the row has it.
    std::optional<std::span<const std::byte>> find(std::int64_t index, std::string_view key) const;

    // Where the page and the value of key `index` probably lie, into the processor's cache: reads nothing of the file.
    void prefetch(std::int64_t index) const;

    std::size_t size() const { return leaves_.size(); }

  private:
    struct Leaf {
        std::int64_t first = 0;  // index of its first key
        std::uint64_t page = 0;
    };

    bool walk(const LmdbPage& branch, std::string_view first_key, const LmdbKeys& keys, std::uint64_t& nodes);
    void index(std::int64_t keys);
    std::size_t leaf_of(std::int64_t index) const;

    LmdbTree tree_;
    std::vector<Leaf> leaves_;  // and one past the end
    // Of each block of keys the leaf that holds its first.
    std::vector<std::uint32_t> blocks_;
    unsigned block_bits_ = 0;
};

}  // namespace stoker
