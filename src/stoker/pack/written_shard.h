// Reads a shard back that a packing has written: that it is the one of the manifest, and the hash of every payload.
#pragma once

#include <filesystem>
#include <functional>

#include "stoker/formats/stk/stk_shard.h"
#include "stoker/formats/stk/stk_shard_writer.h"

namespace stoker {

// Takes the number of samples that were checked so far. Called on the caller's thread.
using ShardProgress = std::function<void(const StkShard& shard, std::int64_t done)>;

// Throws DataError for a missing, damaged or other shard, IoError if it cannot be read.
void check_written_shard(const std::filesystem::path& path, const StkShardInfo& info, const StkSchema& schema,
                         int workers, const ShardProgress& progress);

}  // namespace stoker
