// Records of a chunked dataset: each is put together from the chunks that it overlaps, which are decoded here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stoker/formats/hdf5/hdf5_index.h"
#include "stoker/formats/hdf5/hdf5_records.h"
#include "stoker/formats/part_cache.h"

namespace stoker {

inline constexpr std::uint64_t kHdf5CacheBytes = std::uint64_t{64} << 20;  // decoded chunks of one data set

// Reading one sample of a chunk that is not cached decodes the whole chunk. In random order over a data set much larger
// than the cache that is almost every read: with 100 samples a chunk, all the data is decoded 100 times an epoch.
// Chunks of one sample (h5py: chunks=(1, H, W)) are not cached and cost nothing extra.
class Hdf5Chunks final : public Hdf5Records {
  public:
    // `index`: from read_chunk_index. The filters must have passed check_filters and apply to all chunks.
    Hdf5Chunks(const Hdf5Bytes& file, const Hdf5Info& info, std::vector<Hdf5Chunk> index);

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override;

  private:
    // The intersection of a record and a chunk. The record's own dimensions have length 1.
    struct Overlap {
        Shape at;     // the chunk's coordinates in the grid
        Shape sides;  // shape of the intersection
    };
    // A run of bytes that is contiguous in both.
    struct Piece {
        std::uint64_t from = 0;  // offset in the chunk, from the record's row on
        std::uint64_t to = 0;    // offset in the record
        std::uint64_t size = 0;
    };

    const Hdf5Chunk* find(std::uint64_t cell) const;
    Buffer decode(const Hdf5Chunk& chunk) const;
    bool is_unfiltered(const Hdf5Chunk& chunk) const;
    std::uint64_t row_in_chunk(const Hdf5RecordPlace& record) const;  // the offset of the record's first byte
    Overlap overlap(const Hdf5RecordPlace& record, Shape at) const;
    template <typename Take>
    void each_piece(const Overlap& overlap, Take take) const;
    std::shared_ptr<const Buffer> decoded(const Hdf5Chunk& chunk) const;
    std::span<const std::byte> unfiltered_part(const Hdf5Chunk& chunk, std::uint64_t from, Buffer& storage) const;
    std::span<const std::byte> read_row(const Hdf5RecordPlace& record, Buffer& storage) const;
    void fill_part(const Hdf5RecordPlace& record, const Overlap& overlap, std::span<std::byte> out) const;

    const Hdf5Bytes& file_;
    Hdf5Info info_;
    Hdf5Grid grid_;
    std::vector<Hdf5Chunk> index_;
    bool complete_ = false;  // no chunk is missing: index_[cell] is the chunk of that cell
    std::uint64_t record_bytes_ = 0;
    bool rows_ = false;                        // each record is contiguous within one chunk
    bool single_ = false;                      // no chunk has two records
    std::vector<std::uint64_t> chunk_steps_;   // strides in bytes
    std::vector<std::uint64_t> record_steps_;  // of the record's last own dimension: its size
    mutable PartCache<Buffer> cache_{kHdf5CacheBytes};
};

}  // namespace stoker
