// The rows of Parquet files. Text and binary columns are read by pages, so that one image does not cost a row group;
// other columns by row groups. Pages that are neither compressed nor refer to a dictionary are used in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stoker/base/map_or_read.h"
#include "stoker/formats/arrow/arrow_api.h"
#include "stoker/formats/arrow/arrow_calls.h"
#include "stoker/formats/arrow/arrow_rows.h"
#include "stoker/formats/arrow/parquet_values.h"
#include "stoker/formats/part_budget.h"
#include "stoker/formats/part_cache.h"
#include "stoker/io/shard_files.h"

namespace stoker {

// A file's bytes for the module.
struct ParquetFileBytes {
    const ShardFiles* files = nullptr;
    std::size_t shard = 0;
};

class ParquetRows final : public ArrowRows {
  public:
    // `path`: for messages; `names`: of the files, in order. Opens all, remote ones in parallel, and reads their
    // schemas. Throws DataError for files of different columns, and what arrow_api() throws.
    ParquetRows(std::string path, std::vector<std::string> names, ShardFiles::Open open,
                std::size_t most_open = spare_descriptors());

    std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
    const ArrowType& type() const override { return type_; }
    const std::string& features() const override { return features_; }
    const ArrowSource* add(const ArrowPath& path) override;
    std::optional<std::span<const std::byte>> bytes(const ArrowSource* source, std::int64_t row,
                                                    Buffer& storage) const override;
    ArrowHeld value(const ArrowSource* source, std::int64_t row) const override;
    std::string key(std::int64_t row) const override;
    // Empty if all text and binary columns are used in place and the other columns fit into the cache.
    std::vector<std::int64_t> parts(std::span<const ArrowSource* const> sources) const override;
    // Fetches those pages of remote files whose places are known already.
    void prefetch(std::span<const ArrowSource* const> sources, std::span<const std::int64_t> rows) const override;
    std::int64_t file_bytes() const override { return bytes_; }

  private:
    struct Close {
        const ArrowApi* api;
        void operator()(ParquetHandle* file) const { api->close_parquet(file); }
    };
    struct File {
        std::unique_ptr<ParquetFileBytes> source;
        std::span<const std::byte> map = {};  // empty if it is read
        std::unique_ptr<ParquetHandle, Close> handle;
        std::int64_t first_row = 0;
    };
    struct Group {
        std::size_t file = 0;
        std::int32_t number = 0;  // in its file
        std::int64_t rows = 0;
    };
    // Pages that are decoded together: one, or those that refer to the dictionary.
    struct Run {
        std::uint64_t offset = 0;  // in the file
        std::uint64_t size = 0;
        std::int64_t first_row = 0;  // in the row group
        std::int64_t rows = 0;
        bool dictionary = false;
    };
    struct GroupRuns {
        std::once_flag once;
        std::atomic<bool> known = false;
        std::vector<Run> runs;
    };
    struct Source : ArrowSource {
        std::uint64_t number = 0;
        std::vector<std::int32_t> leaves = {};
        bool paged = false;                    // it is one leaf of text or binary
        mutable std::deque<GroupRuns> groups;  // of a paged one
    };
    // A column of a row group.
    struct Column {
        ArrowOwned<ArrowArray> array;
        ArrowType type;
        std::size_t bytes = 0;
        std::size_t size() const { return bytes; }
    };
    struct Place {
        std::size_t group;
        std::int64_t row;  // in the group
    };

    void open_file(std::size_t shard);
    void read_schema();
    void read_schema_of(std::size_t shard, ArrowType& type, std::string& features) const;
    void check_columns(std::size_t shard) const;
    Place place(std::int64_t row) const;
    const std::string& file_name(const Group& group) const { return files_.name(group.file); }
    ParquetChunk chunk(const Group& group, std::int32_t leaf) const;
    const std::vector<Run>& runs(const Source& source, std::size_t group) const;
    std::vector<Run> find_runs(const Group& group, std::int32_t leaf) const;
    void add_part_sizes(const Source& source);
    static std::uint64_t decoded_size(const ParquetChunk& all, std::uint64_t stored);
    ParquetValues decode_run(const Group& group, std::int32_t leaf, const Run& run) const;
    Column decode_column(const Group& group, const Source& source) const;
    bool in_place(const Group& group, std::int32_t leaf) const;
    std::int64_t decoded_bytes(const Source& source) const;

    const ArrowApi& api_;
    std::string path_;
    ShardFiles files_;
    std::vector<File> opened_;
    std::vector<Group> groups_;
    std::vector<std::int64_t> ends_;  // row after the last of each group
    std::vector<ParquetLeaf> leaves_;
    ArrowType type_;
    std::string features_;
    std::mutex mutex_;
    std::deque<Source> sources_;
    std::int64_t bytes_ = 0;
    MapOrRead map_or_read_;
    PartSizes part_sizes_;  // of paged sources
    mutable std::mutex large_run_;
    mutable PartCache<ParquetValues> values_;
    mutable PartCache<Column> columns_;
};

}  // namespace stoker
