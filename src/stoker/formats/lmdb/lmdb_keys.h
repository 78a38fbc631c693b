// Which keys of an LMDB database are samples, in its own order. Where the keys are numbers in a row ("00000000",
// "image-000000001") each is computed from its index, and opening costs a few look-ups whatever the size; any other
// keys are listed once by a walk through the database, and the list is kept in the user's cache.
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

// Keys between two others that count up: prefix, then a number of `digits` digits.
struct LmdbKeyRow {
    std::string prefix;
    std::size_t digits = 0;
    std::uint64_t first = 0;

    bool operator==(const LmdbKeyRow&) const = default;
};

// The row that begins with `first` and ends with `last` after exactly `count` keys; empty where there is none.
std::optional<LmdbKeyRow> find_key_row(std::string_view first, std::string_view last, std::uint64_t count);

class LmdbKeys {
  public:
    // Not samples are keys that begin with "__", and "num-samples" and "length" where their value is a number. Where
    // there is "num-samples", and keys that begin with "image-", only those are samples.
    explicit LmdbKeys(const LmdbSnapshot& snapshot);

    static constexpr std::size_t kLongest = 511;  // liblmdb's limit
    using Memory = std::array<char, kLongest + 1>;

    std::int64_t size() const { return size_; }
    // Key `index` in [0, size()), in the memory given or in the list.
    std::string_view at(std::int64_t index, Memory& memory) const;

    // True where keys are computed.
    bool row() const { return row_.has_value(); }
    // Of keys in a row: how many of them come before this text, if it is one of them, or the end of the row if it comes
    // after it. Empty for any other.
    std::optional<std::int64_t> index_in_row(std::string_view key) const;

    // True where keys are "image-..." and their labels lie under "label-...".
    bool paired() const { return !prefix_.empty(); }
    // The key of the label that belongs to the key of an image.
    static std::string_view label_key(std::string_view image_key, Memory& memory);

  private:
    struct Range;
    Range find_range(const LmdbTree& tree) const;
    bool find_row(const LmdbTree& tree, const Range& range, std::uint64_t entries);
    void list(const LmdbSnapshot& snapshot, const Range& range);
    bool adopt(Buffer list, std::uint64_t entries);

    std::string prefix_;  // of samples; empty for all keys
    std::int64_t size_ = 0;
    std::optional<LmdbKeyRow> row_;
    // Else: the number of keys, their begins and the end of the last, all of 64 bits; then the keys themselves.
    Buffer list_;
    std::span<const std::uint64_t> begins_;
    std::string_view names_;
};

}  // namespace stoker
