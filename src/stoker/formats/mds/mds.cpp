// Combines the index with the shards.
#include "stoker/formats/mds/mds.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/column_dataset.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/mds/mds_index.h"

namespace stoker {
namespace {

// A reader of Streaming leaves uncompressed shards next to the compressed ones, or instead of them.
bool is_unpacked(const std::string& file, std::uint64_t size) {
    std::error_code error;
    return !is_remote(file) && std::filesystem::file_size(file, error) == size && !error;
}

ShardInfo shard_info(const std::string& place, const MdsShard& shard) {
    ShardInfo info{.file = next_to_index(place, shard.raw.name),
                   .name = shard.raw.name,
                   .samples = shard.samples,
                   .size = shard.raw.size};
    if (shard.packed && !is_unpacked(info.file, shard.raw.size)) {
        info.file = next_to_index(place, shard.packed->name);
        info.size = shard.packed->size;
        info.raw_size = shard.raw.size;
        info.packing = shard.packing;
    }
    return info;
}

}  // namespace

std::unique_ptr<Dataset> open_mds(const std::string& place, const nlohmann::json& index, const FieldNames& fields,
                                  ShardFiles::Open open) {
    const std::string where = shown_name(place);
    return with_place({.path = where}, [&]() -> std::unique_ptr<Dataset> {
        MdsIndex parsed = parse_mds_index(index, where);
        std::vector<ShardInfo> shards;
        for (const MdsShard& shard : parsed.shards) {
            shards.push_back(shard_info(place, shard));
        }
        return std::make_unique<ColumnDataset>(ColumnSource("mds", place), std::move(parsed.layout),
                                               std::make_unique<SampleShards>(std::move(shards), std::move(open)),
                                               fields);
    });
}

}  // namespace stoker
