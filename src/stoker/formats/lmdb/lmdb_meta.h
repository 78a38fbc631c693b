// The first two pages of an LMDB file, the meta pages. Each describes a complete state of the database; the one with
// the larger transaction number is the newest. liblmdb does not check them, so we do before it opens the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/base/file.h"

namespace stoker {

// LMDB 1.0 has a page header of 24 bytes, 8 more than LMDB 0.9. Offsets in a page begin after it, and values begin at
// even ones.
enum class LmdbFormat : std::uint8_t { v0_9, v1_0 };

struct LmdbMeta {
    LmdbFormat format = LmdbFormat::v0_9;
    std::uint32_t page_size = 0;
    std::uint64_t last_page = 0;
    std::uint64_t transaction = 0;
    std::uint64_t entries = 0;   // in the unnamed database
    std::uint64_t root = 0;      // the root page of its B-tree
    std::uint16_t depth = 0;     // pages from the root to a leaf
    bool keys_from_end = false;  // keys are compared from their last byte on

    bool operator==(const LmdbMeta&) const = default;
};

// The newest state. Throws DataError if the file does not begin as an LMDB file does, or ends before the tree's root;
// Unsupported for another version of the format, several values per key, an encrypted file, or a file of a big-endian
// machine.
LmdbMeta read_lmdb_meta(const File& file, const std::string& path);

// The state of that transaction number; empty if a writer has replaced its meta page by a later one.
std::optional<LmdbMeta> find_lmdb_meta(const File& file, std::uint64_t transaction, const std::string& path);

}  // namespace stoker
