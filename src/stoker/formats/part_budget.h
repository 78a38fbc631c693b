// How many bytes of decoded parts (part_cache.h) a data set needs, so that no part is decoded twice while samples are
// shuffled within windows.
#pragma once

#include <cstdint>

namespace stoker {

// The default window of the shuffle: as many samples as this many stored bytes (Dataset::bytes()) hold. Half of the
// memory for blocks of remote files.
inline constexpr std::int64_t kWindowBytes = std::int64_t{128} << 20;

struct PartSizes {
    std::uint64_t stored = 0;   // Dataset::bytes()
    std::uint64_t decoded = 0;  // of all parts
    std::uint64_t largest = 0;  // part, decoded

    void add(std::uint64_t part) { add_pieces(part, part); }
    // Parts of `most` bytes at most.
    void add_pieces(std::uint64_t bytes, std::uint64_t most);
};

struct PartBudget {
    std::uint64_t bytes = 0;
    bool short_of_windows = false;  // memory is too small for the parts of two windows
};

// Room for all parts, or for those of two windows and at least `least` bytes; at most a quarter of memory.
PartBudget part_budget(const PartSizes& sizes, std::uint64_t least = std::uint64_t{512} << 20);

}  // namespace stoker
