// Records of a chunked dataset: the pieces of each out of the chunks that it touches, which are decoded here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stoker/formats/hdf5/hdf5_cache.h"
#include "stoker/formats/hdf5/hdf5_index.h"
#include "stoker/formats/hdf5/hdf5_records.h"

namespace stoker {

class Hdf5Chunks final : public Hdf5Records {
  public:
    // `index` as read_chunk_index makes it, of a dataset that check_filters let pass.
    Hdf5Chunks(const Hdf5Bytes& file, const Hdf5Info& info, std::vector<Hdf5Chunk> index);

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override;

  private:
    // What a record and a chunk have in common, along each dimension but the first.
    struct Overlap {
        Shape at;     // the chunk's place in the grid
        Shape sides;  // of the common part
    };
    struct Piece {
        std::uint64_t from = 0;  // in the record's row of the chunk, in bytes
        std::uint64_t to = 0;    // in the record
        std::uint64_t size = 0;
    };

    const Hdf5Chunk* find(std::uint64_t cell) const;
    Buffer decode(const Hdf5Chunk& chunk) const;
    bool is_plain(const Hdf5Chunk& chunk) const;
    bool on_edge(std::uint64_t cell) const;
    Overlap overlap(std::int64_t record, Shape at) const;
    template <typename Take>
    void each_piece(const Overlap& overlap, Take take) const;
    std::shared_ptr<const Buffer> decoded(const Hdf5Chunk& chunk) const;
    std::span<const std::byte> plain_part(const Hdf5Chunk& chunk, std::uint64_t from, Buffer& storage) const;
    std::span<const std::byte> read_row(std::int64_t index, Buffer& storage) const;
    void fill_part(std::int64_t record, const Overlap& overlap, std::span<std::byte> out) const;

    const Hdf5Bytes& file_;
    Hdf5Info info_;
    Hdf5Grid grid_;
    std::vector<Hdf5Chunk> index_;
    bool complete_ = false;  // no chunk is absent: cell and position in index_ are the same
    std::uint64_t record_bytes_ = 0;
    bool rows_ = false;                        // a record is one row of one chunk
    std::vector<std::uint64_t> chunk_steps_;   // bytes from one element to the next along each dimension
    std::vector<std::uint64_t> record_steps_;  // dimension 0: the record's size
    mutable Hdf5Cache cache_;
};

}  // namespace stoker
