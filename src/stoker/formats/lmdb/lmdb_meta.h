// The two first pages of an LMDB file, each of which describes a whole state of it; the one with the larger transaction
// number counts. liblmdb believes them, so they are checked before it opens the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/base/file.h"

namespace stoker {

struct LmdbMeta {
    std::uint32_t page_size = 0;
    std::uint64_t last_page = 0;
    std::uint64_t transaction = 0;
    std::uint64_t entries = 0;   // of the unnamed database
    std::uint64_t root = 0;      // page of its B-tree
    std::uint16_t depth = 0;     // of that: pages from the root to a leaf
    bool keys_from_end = false;  // keys are compared from their last byte on

    bool operator==(const LmdbMeta&) const = default;
};

// Throws DataError where the file does not begin as an LMDB file does or ends before its tree begins; Unsupported for
// another version of the format, several values a key, or a file that a machine of other numbers wrote.
LmdbMeta read_lmdb_meta(const File& file, const std::string& path);

// The page that describes the state after `transaction`; empty where a writer has put a later one in its place.
std::optional<LmdbMeta> find_lmdb_meta(const File& file, std::uint64_t transaction, const std::string& path);

}  // namespace stoker
