// Finds the value of a sequential key without a descent through the B-tree. The branch pages, about 0.5 % of the file,
// hold the first key of every leaf page; the position within the leaf follows from the key's number. A look-up then
// touches one page instead of four: 0.22 us instead of 0.62 us for mdb_get, among 200,000 records of 1 kB.
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
    // Reads the branch pages. find() returns nothing if they are damaged or the keys are not sequential.
    LmdbLeaves(const LmdbTree& tree, const LmdbKeys& keys);

    // The value of key `index`, which is `key`. Empty if the page is damaged or the key lies elsewhere: then use the
    // tree.
    std::optional<std::span<const std::byte>> find(std::int64_t index, std::string_view key) const;

    // Prefetches the page and, at its probable place, the value of key `index` into the processor's cache.
    void prefetch(std::int64_t index) const;

    std::size_t size() const { return leaves_.size(); }

  private:
    struct Leaf {
        std::int64_t first = 0;  // index of its first key
        std::uint64_t page = 0;
    };

    bool walk(const LmdbPage& branch, std::size_t depth, std::string_view first_key, const LmdbKeys& keys,
              std::uint64_t& nodes);
    void index(std::int64_t keys);
    std::size_t leaf_of(std::int64_t index) const;

    LmdbTree tree_;
    std::vector<Leaf> leaves_;  // the last entry is the end
    // For each block of 2^block_bits_ keys, the leaf that holds the first.
    std::vector<std::uint32_t> blocks_;
    unsigned block_bits_ = 0;
};

}  // namespace stoker
