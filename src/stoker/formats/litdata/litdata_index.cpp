// Each leaf has a uint32 for its size in a sample, also those of one size.
#include "stoker/formats/litdata/litdata_index.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/litdata/litdata_encoding.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostSamples = (std::uint64_t{1} << 32) - 1;  // offsets are of 32 bits
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 32;

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "litdata", .expected = std::move(expected), .got = std::move(got)});
}

std::string optional_text(const Json& config, const char* name) {
    return json_optional_member(config, name) == nullptr ? "" : json_text_member(config, name);
}

LitFrames parse_frames(const Json& config, const std::string& compression, const std::string& where) {
    if (compression.empty()) {
        return LitFrames::none;
    }
    const std::string level = optional_text(config, "compression_level");
    if (compression.substr(0, compression.find(':')) != "zstd" ||
        (!level.empty() && level != "chunk" && level != "batch" && level != "sample")) {
        throw Unsupported({.where = where,
                           .expected = "chunks without compression, or compressed by zstd",
                           .got = fmt::format("{:?} {}", compression, level)});
    }
    return level == "batch" ? LitFrames::batch : level == "sample" ? LitFrames::sample : LitFrames::chunk;
}

LitChunk parse_chunk(const Json& json) {
    LitChunk chunk;
    chunk.name = json_text_member(json, "filename");
    chunk.samples = static_cast<std::int64_t>(json_natural_member(json, "chunk_size", kMostSamples));
    if (json_optional_member(json, "dim") != nullptr) {
        chunk.tokens = static_cast<std::int64_t>(json_natural_member(json, "dim", kMostTokens));
    }
    return chunk;
}

void refuse_loader(const std::string& loader, const std::string& where) {
    if (loader.empty() || loader == "PyTreeLoader" || loader == "TokensLoader") {
        return;
    }
    throw Unsupported(
        {.where = where,
         .expected = "chunks that PyTreeLoader or TokensLoader reads",
         .got = loader,
         .hint = loader == "ParquetLoader" ? "the chunks are Parquet files: give the folder of those" : ""});
}

// Older indices do not name their loader; a stream of tokens has their number for each chunk.
bool is_tokens(const std::string& loader, const LitIndex& index, const std::vector<std::string>& serializers) {
    const bool counted = !index.chunks.empty() &&
                         std::ranges::all_of(index.chunks, [](const LitChunk& chunk) { return chunk.tokens > 0; });
    return counted && serializers.size() == 1 && litdata_flat_type(serializers[0]) &&
           (loader.empty() || loader == "TokensLoader");
}

std::vector<std::string> parse_serializers(const Json& config) {
    const Json& list = json_member(config, "data_format");
    if (!list.is_array() || !std::ranges::all_of(list, [](const Json& name) { return name.is_string(); })) {
        refuse("a list of serializers", json_text(list).substr(0, 100));
    }
    return list.get<std::vector<std::string>>();
}

}  // namespace

LitIndex parse_litdata_index(const Json& json, const std::string& where) {
    const Json& config = json_member(json, "config");
    const std::string loader = optional_text(config, "item_loader");
    refuse_loader(loader, where);
    if (json_optional_member(config, "encryption") != nullptr) {
        throw Unsupported({.where = where, .expected = "chunks without encryption", .got = "encrypted ones"});
    }
    LitIndex index;
    index.compression = optional_text(config, "compression");
    index.frames = parse_frames(config, index.compression, where);
    const Json& chunks = json_member(json, "chunks");
    if (!chunks.is_array()) {
        refuse("a list of chunks", chunks.type_name());
    }
    std::ranges::transform(chunks, std::back_inserter(index.chunks), parse_chunk);
    const std::vector<std::string> serializers = parse_serializers(config);
    if (is_tokens(loader, index, serializers)) {
        index.tokens = litdata_flat_type(serializers[0]);
        return index;
    }
    const std::vector<std::string> names = litdata_leaf_names(json_text_member(config, "data_spec"));
    if (names.size() != serializers.size()) {
        refuse(fmt::format("a serializer for each of {} leaves", names.size()), fmt::format("{}", serializers.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        index.layout.columns.push_back(litdata_column(names[i], serializers[i]));
        index.layout.sizes.emplace_back();
    }
    return index;
}

}  // namespace stoker
