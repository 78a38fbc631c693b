// A stream of tokens in LitData's chunks, as its TokensLoader reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/sample_shards.h"
#include "stoker/io/shard_files.h"

namespace stoker {

class LitTokens final : public Dataset {
  public:
    // Samples are those of TokensLoader(block_size = context + 1): blocks that share no token, as field `tokens` int64
    // (context + 1); `fields.more` may give it another name. Tokens behind a chunk's last whole block are left out.
    // Throws DataError for a chunk that ends before its tokens or has another count than the index, InvalidArgument for a context outside of 1 to 2^20,
    // Unsupported for compressed chunks and other fields.
    LitTokens(const std::string& place, const LitIndex& index, std::vector<ShardInfo> chunks, ShardFiles::Open open,
              std::int64_t context, const FieldNames& fields);

    std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
    // Throws DataError for a negative token.
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::vector<std::int64_t> shard_sizes() const override;  // of remote chunks
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    std::optional<std::int64_t> label(std::int64_t /*index*/) const override { return -1; }
    std::string_view format() const override { return "litdata"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return bytes_; }

  private:
    struct Place {
        std::size_t chunk;
        ByteRange range;     // of the block in the chunk
        std::int64_t block;  // in the chunk
    };

    Place place(std::int64_t index) const;

    std::string path_;
    std::vector<ShardInfo> chunks_;
    ShardFiles files_;
    ArrayType type_;
    std::int64_t block_;              // tokens in a sample
    std::vector<std::int64_t> ends_;  // index after the last sample of each chunk
    std::vector<Field> fields_;
    std::int64_t bytes_ = 0;
};

}  // namespace stoker
