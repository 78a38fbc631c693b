// The keys of an LMDB database that are samples, in its order. Consecutive numbers ("00000000", "00000001", ...;
// "image-000000001", ...) are computed from the index, so that opening takes a few look-ups for any size. Other keys
// are listed by one walk through the database, and the list is kept in the user's cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/formats/lmdb/lmdb_snapshot.h"

namespace stoker {

// Keys that are consecutive numbers: a prefix, then the number in `digits` digits.
struct LmdbKeySequence {
    std::string prefix;
    std::size_t digits = 0;
    std::uint64_t first = 0;

    bool operator==(const LmdbKeySequence&) const = default;
};

// The sequence of `count` keys from `first` to `last`; empty if they cannot be consecutive numbers.
std::optional<LmdbKeySequence> find_key_sequence(std::string_view first, std::string_view last, std::uint64_t count);

class LmdbKeys {
  public:
    // All keys are samples except those that begin with "__", and "num-samples" and "length" if their value is a
    // number. If there are "num-samples" and keys that begin with "image-", only the latter are samples. Throws
    // DataError if there are none.
    explicit LmdbKeys(const LmdbSnapshot& snapshot);

    static constexpr std::size_t kLongest = 511;  // liblmdb's limit
    using Memory = std::array<char, kLongest + 1>;

    std::int64_t size() const { return size_; }
    // Key `index` in [0, size()), which points into `memory` or into the list.
    std::string_view at(std::int64_t index, Memory& memory) const;

    // True if the keys are consecutive numbers.
    bool sequential() const { return sequence_.has_value(); }
    // For sequential keys: the index of `key`, or size() for a key behind the last one. Otherwise empty.
    std::optional<std::int64_t> index_in_sequence(std::string_view key) const;

    // True if the samples are "image-..." and their labels lie under "label-...".
    bool paired() const { return !prefix_.empty(); }
    // The key of the label of an image.
    static std::string_view label_key(std::string_view image_key, Memory& memory);

  private:
    struct Range;
    std::optional<Range> find_range(const LmdbTree& tree) const;
    bool find_sequence(const LmdbTree& tree, const Range& range, std::uint64_t entries);
    void list(const LmdbSnapshot& snapshot, const Range& range);
    bool adopt(Buffer list, std::uint64_t entries);

    std::string prefix_;  // of samples' keys; empty: any
    std::int64_t size_ = 0;
    std::optional<LmdbKeySequence> sequence_;
    // Without a sequence: the number of keys, their starts, the last one's end (64 bits each), then their bytes.
    Buffer list_;
    std::span<const std::uint64_t> begins_;
    std::string_view names_;
};

}  // namespace stoker
