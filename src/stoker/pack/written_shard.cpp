#include "stoker/pack/written_shard.h"

#include <algorithm>

#include "stoker/base/error.h"
#include "stoker/pack/ordered_parallel_for.h"
#include "stoker/pack/staging_folder.h"

namespace stoker {

void check_written_shard(const std::filesystem::path& path, const StkShardInfo& info, const StkSchema& schema,
                         int workers, const ShardProgress& progress) {
    staged_size(path, 0);
    const StkShard shard(path);
    if (shard.hash() != info.hash || shard.samples() != static_cast<std::int64_t>(info.samples)) {
        throw DataError({.path = path.string()},
                        {.where = "pack", .expected = "the shard that was written", .got = "another shard"});
    }
    if (shard.schema() != schema) {
        throw DataError({.path = path.string()},
                        {.where = "pack", .expected = "the classes and fields of the source", .got = "others"});
    }
    constexpr std::int64_t kPiece = 256;
    const OrderedRange range{.end = (shard.samples() + kPiece - 1) / kPiece, .threads = workers};
    ordered_parallel_for(
        range,
        [&](std::int64_t piece, int, int) {
            for (std::int64_t i = piece * kPiece; i < std::min(shard.samples(), (piece + 1) * kPiece); ++i) {
                shard.verify(i);
            }
        },
        [&](std::int64_t piece, int) { progress(shard, std::min(shard.samples(), (piece + 1) * kPiece)); });
}

}  // namespace stoker
