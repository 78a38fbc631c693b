// Samples in shards, one shard's behind the other's: which shard has a sample, and the bytes of ranges of a shard.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/map_or_read.h"
#include "stoker/io/shard_files.h"

namespace stoker {

class ShardReader {
  public:
    struct Place {
        std::size_t shard;
        std::int64_t sample;  // in the shard
    };

    // `most_open`: see ShardFiles.
    ShardReader(std::vector<std::string> names, ShardFiles::Open open, std::size_t most_open = spare_descriptors())
        : files_(std::move(names), std::move(open), most_open) {}

    // Calls count(shard, file), which returns the shard's number of samples, for every shard, several at once. A reader
    // that was not indexed has size 0.
    void index(const std::function<std::int64_t(std::size_t shard, const ByteFile& file)>& count);

    std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
    std::int64_t bytes() const { return static_cast<std::int64_t>(bytes_); }
    std::uint64_t file_size(std::size_t shard) const { return sizes_[shard]; }
    const ShardFiles& files() const { return files_; }
    const MapOrRead& map_or_read() const { return map_or_read_; }

    // `index` must be one of the samples.
    Place place(std::int64_t index) const;

    // The range's bytes: in the shard's map, which stays as long as this object (map_or_read.h says when), or read into
    // `storage`. Throws DataError for a range that was not within the file when it was indexed.
    std::span<const std::byte> read(std::size_t shard, const ByteRange& range, Buffer& storage) const;

    // use(bytes of the range). If it throws DataError, a remote file's bytes are fetched again, once: a cached block
    // may be damaged.
    template <typename Use>
    auto read_checked(std::size_t shard, const ByteRange& range, Buffer& storage, const Use& use) const {
        check_range(shard, range);
        try {
            return use(read(shard, range, storage));
        } catch (const DataError&) {
            if (!files_.remote()) {
                throw;
            }
        }
        storage.resize(static_cast<std::size_t>(range.size));
        files_.open(shard)->read_anew(range.offset, storage.bytes());
        return use(storage.bytes());
    }

    // For Dataset::prefetch; throws InvalidArgument for an index that is none. `add_ranges` appends the ranges that a
    // sample needs; those of size 0 are left out. Fetches remote neighbours in one request; brings local ones into
    // memory.
    void prefetch(std::span<const std::int64_t> indices,
                  const std::function<void(const Place& at, std::vector<ByteRange>& ranges)>& add_ranges) const;

  private:
    void check_range(std::size_t shard, const ByteRange& range) const;

    ShardFiles files_;
    std::vector<std::int64_t> ends_;    // index after the last sample of each shard
    std::vector<std::uint64_t> sizes_;  // of the files
    std::uint64_t bytes_ = 0;
    MapOrRead map_or_read_;
};

}  // namespace stoker
