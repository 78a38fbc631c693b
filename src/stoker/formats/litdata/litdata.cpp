// Combines the index with the chunks.
#include "stoker/formats/litdata/litdata.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/column_dataset.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/litdata/litdata_chunk.h"
#include "stoker/formats/litdata/litdata_tokens.h"

namespace stoker {
namespace {

// "chunk-0-0.bin" for "chunk-0-0.zstd.bin": a reader of LitData replaces compressed chunks of a local folder by their
// content.
std::string unpacked_name(const std::string& name, const std::string& compression) {
    const std::string part = "." + compression;
    const std::size_t at = name.rfind(part);
    return at == std::string::npos ? name : name.substr(0, at) + name.substr(at + part.size());
}

// Chunks of Arrow rows are not compressed as a whole, whatever the index says.
ShardInfo chunk_info(const std::string& place, const LitIndex& index, const LitChunk& chunk) {
    ShardInfo info{.file = next_to_index(place, chunk.name), .name = chunk.name, .samples = chunk.samples};
    if (index.frames == LitFrames::chunk) {
        std::error_code unknown;
        const bool named = unpacked_name(chunk.name, index.compression) != chunk.name;
        const std::string unpacked = next_to_index(place, unpacked_name(chunk.name, index.compression));
        const bool replaced =
            unpacked != info.file && !is_remote(place) && !std::filesystem::exists(info.file, unknown);
        info.file = replaced ? unpacked : info.file;
        info.packing = replaced ? ShardPacking::none : named ? ShardPacking::zstd : ShardPacking::zstd_or_none;
    }
    return info;
}

}  // namespace

std::unique_ptr<Dataset> open_litdata(const std::string& place, const nlohmann::json& json, const FieldNames& fields,
                                      ShardFiles::Open open, std::int64_t context) {
    const std::string where = shown_name(place);
    return with_place({.path = where}, [&]() -> std::unique_ptr<Dataset> {
        LitIndex index = parse_litdata_index(json, where);
        std::vector<ShardInfo> chunks;
        for (const LitChunk& chunk : index.chunks) {
            chunks.push_back(chunk_info(place, index, chunk));
        }
        if (index.tokens) {
            return std::make_unique<LitTokens>(place, index, std::move(chunks), std::move(open), context, fields);
        }
        const auto read_table = [&](const ByteFile& file, const ShardInfo& chunk) {
            return read_litdata_table(file, chunk, index);
        };
        auto shards = std::make_unique<SampleShards>(std::move(chunks), std::move(open), read_table);
        return std::make_unique<ColumnDataset>(ColumnSource("litdata", place), std::move(index.layout),
                                               std::move(shards), fields);
    });
}

}  // namespace stoker
