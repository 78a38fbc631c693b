// A record batch of an Arrow file: the values of its columns by row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/formats/litdata/flat_buffer.h"

namespace stoker {

enum class ArrowType : std::uint8_t {
    integer = 2,
    real = 3,
    binary = 4,
    text = 5,
    boolean = 6
};  // as Arrow numbers them

struct ArrowColumn {
    std::string name;
    ArrowType type = ArrowType::binary;

    bool is_bytes() const { return type == ArrowType::binary || type == ArrowType::text; }
    std::size_t buffers() const { return is_bytes() ? 3 : 2; }
};

// The place of a batch, as the file's footer has it.
struct ArrowBlock {
    std::int64_t offset;
    std::int32_t metadata;  // bytes of it; the body follows
    std::int32_t padding;
    std::int64_t body;
};
static_assert(sizeof(ArrowBlock) == 24);

class ArrowBatch {
  public:
    // `bytes`: the metadata, of at least 16 bytes, and the body. Throws DataError for another message, and for a
    // compression other than zstd.
    ArrowBatch(std::span<const std::byte> bytes, const ArrowBlock& block);

    std::int64_t rows() const;
    // Buffer `at`, unpacked into `storage` if it is packed. Throws DataError.
    std::span<const std::byte> buffer(std::size_t at, Buffer& storage) const;

  private:
    FlatTable header_;
    std::span<const std::byte> body_;
    FlatVector buffers_;
    bool packed_ = false;
};

// The values of a column, whose buffers begin at `first_buffer`. Points into the batch.
class ArrowValues {
  public:
    // Throws DataError for buffers that are too short.
    ArrowValues(const ArrowBatch& batch, const ArrowColumn& column, std::size_t first_buffer);

    // Eight bytes of a number, a byte of a boolean; empty for null. Throws DataError for a place outside of the buffer.
    std::span<const std::byte> at(std::size_t row) const;

  private:
    ArrowType type_;
    std::array<Buffer, 3> storage_;
    std::span<const std::byte> validity_;  // a bit for each row; empty: no nulls
    std::span<const std::byte> offsets_;   // int32; of bytes
    std::span<const std::byte> data_;
};

}  // namespace stoker
