// Shards of samples whose bytes lie one after the other behind a table of their places: the layout that MDS and LitData
// share. A shard is a count of samples, N + 1 offsets, and the samples; integers are little-endian uint32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/map_or_read.h"
#include "stoker/formats/part_cache.h"
#include "stoker/formats/shard_reader.h"

namespace stoker {

// The compression of a whole shard, its table included. zstd_or_none: the file's first bytes say it.
enum class ShardPacking : std::uint8_t { none, zstd, gzip, zstd_or_none };

struct ShardInfo {
    std::string file;  // a path or URL
    std::string name;  // in the data set, for keys: "train/shard.00000.mds"; see make_unique_names
    std::int64_t samples = 0;
    std::optional<std::uint64_t> size = std::nullopt;      // of the file, as the index says
    std::optional<std::uint64_t> raw_size = std::nullopt;  // without compression; gzip needs it
    ShardPacking packing = ShardPacking::none;
};

// Makes the names unique.
void make_unique_names(std::vector<ShardInfo>& shards);

// Samples that are compressed together.
struct ShardPart {
    std::int64_t first = 0;  // sample in the shard
    ByteRange range = {};    // of the zstd frame in the file
    std::uint64_t raw_size = 0;
};

// The places of a shard's samples. Without parts, in the file. With parts, from the first sample's, in their bytes one
// after the other. A shard of one packing has neither.
struct ShardTable {
    std::vector<std::uint32_t> offsets;  // samples + 1
    std::vector<ShardPart> parts;        // by first sample
    bool each_packed = false;            // each sample is a zstd frame
    // For parts other than zstd frames: makes the bytes of a part a shard of its samples, with a table. `path` is for
    // messages. Thread-safe.
    std::function<Buffer(std::span<const std::byte> part, const std::string& path)> unpack = {};
};

// Reads the table at the beginning of a shard without a packing. Throws DataError for another number of samples than
// `shard` has, and a file that ends before.
ShardTable read_shard_table(const ByteFile& file, const ShardInfo& shard);

// The bytes of one sample, valid as long as this object and its SampleShards.
class SampleBytes {
  public:
    std::span<const std::byte> bytes() const { return bytes_; }
    // A piece of them, which must lie within: in the map, or copied to `storage` (map_or_read.h says when).
    std::span<const std::byte> piece(std::size_t offset, std::size_t size, Buffer& storage) const;

  private:
    friend class SampleShards;

    std::span<const std::byte> bytes_;
    std::uint64_t offset_ = 0;           // in the file, if mapped
    const MapOrRead* mapped_ = nullptr;  // null: the bytes are those of part_ or own_
    std::optional<ShardFiles::Handle> file_;
    std::shared_ptr<const Buffer> part_;
    Buffer own_;
};

class SampleShards {
  public:
    using ReadTable = std::function<ShardTable(const ByteFile& file, const ShardInfo& shard)>;

    // Opens all files and reads the tables of those without a packing. Throws IoError for a missing file, DataError for
    // one of another size than its index says and for a count of samples that a packed one cannot have, and what
    // `read_table` throws.
    SampleShards(std::vector<ShardInfo> shards, ShardFiles::Open open, const ReadTable& read_table = read_shard_table);

    std::int64_t size() const { return reader_.size(); }
    std::int64_t bytes() const { return reader_.bytes(); }

    // Thread-safe. Throws DataError, with the place, for damaged bytes.
    SampleBytes sample(std::int64_t index) const;

    // The file, the sample's key and where its bytes begin, as far as the table says.
    DataPlace where(std::int64_t index) const;
    // "shard.00000.mds/17"
    std::string key(std::int64_t index) const;

    // As of a Dataset.
    void prefetch(std::span<const std::int64_t> indices) const;
    std::vector<std::int64_t> shard_sizes() const;

    // True if samples have to be unpacked with others.
    bool packed() const { return packed_; }
    // True if memory is too small for the unpacked shards of two windows of the shuffle.
    bool unpacks_again() const { return unpacks_again_; }

  private:
    using Place = ShardReader::Place;

    void read_table(std::size_t shard, const ByteFile& file, const ReadTable& read_table);
    void make_cache();
    std::uint64_t begin_of(const Place& at) const;
    std::shared_ptr<const Buffer> unpacked_shard(std::size_t shard) const;
    std::shared_ptr<const Buffer> unpacked_part(std::size_t shard, std::size_t part) const;
    void read_packed(const Place& at, SampleBytes& sample) const;
    void read_plain(const Place& at, SampleBytes& sample) const;
    std::size_t part_of(const Place& at) const;
    ByteRange stored_range(const Place& at) const;

    std::vector<ShardInfo> shards_;
    ShardReader reader_;
    std::vector<ShardTable> tables_;  // by shard
    bool packed_ = false;
    std::unique_ptr<PartCache<Buffer>> cache_;
    bool unpacks_again_ = false;
};

}  // namespace stoker
