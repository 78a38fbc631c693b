// The values of some pages of Parquet: text or binary, as Apache Arrow gives them one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace stoker {

struct ParquetValues {
    // A value in the file, or in `bytes`.
    struct Piece {
        std::uint64_t begin : 63 = 0;
        std::uint64_t copied : 1 = 0;
        std::int64_t size = 0;  // -1: null
    };
    std::vector<std::byte> bytes;
    std::vector<Piece> pieces;

    std::size_t size() const { return bytes.capacity() + pieces.capacity() * sizeof(Piece) + sizeof *this; }
};

class TakenValues {
  public:
    // `map`: of the file; values in it are not copied. `bytes`: the size of all others, if it is known.
    TakenValues(std::span<const std::byte> map, std::int64_t rows, std::uint64_t bytes);

    // The next value; a size of -1: null. Values that are entries of a dictionary come again at the same address.
    void take(const std::uint8_t* value, std::int64_t size);

    // True if there were more bytes than most(): a dictionary's entries may be repeated any number of times.
    bool too_large() const { return too_large_; }
    std::uint64_t most() const { return most_; }
    ParquetValues values() &&;

  private:
    std::uint64_t copy(std::span<const std::byte> value);

    std::span<const std::byte> map_;
    std::uint64_t most_;
    ParquetValues values_;
    std::unordered_map<const std::byte*, std::uint64_t> entries_;
    bool too_large_ = false;
};

}  // namespace stoker
