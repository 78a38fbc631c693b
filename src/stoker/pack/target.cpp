// The table of formats that can be written.
#include "stoker/pack/target.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pack/lmdb_target.h"
#include "stoker/pack/staging_folder.h"
#include "stoker/pack/stk_target.h"
#include "stoker/pack/table_target.h"
#include "stoker/pack/tar_target.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

template <typename Target>
std::unique_ptr<PackTarget> open_as(const fs::path& path, const TargetOptions& options) {
    return std::make_unique<Target>(path, options);
}

template <typename Target>
constexpr TargetFormat staged(std::string_view name, std::string_view ending, bool shards = false) {
    return {.name = name,
            .ending = ending,
            .shards = shards,
            .finished_origin = finished_origin,
            .unfinished_origin = unfinished_origin,
            .open = open_as<Target>,
            .summary = staged_summary};
}

// The first matching ending is used.
constexpr std::array kFormats = {
    TargetFormat{.name = "stk",
                 .ending = ".stk",
                 .shards = true,
                 .codec = PackCodec::keep,
                 .finished_origin = finished_stk_origin,
                 .unfinished_origin = unfinished_stk_origin,
                 .open = open_as<StkTarget>,
                 .summary = stk_summary},
    staged<TarTarget>("tar", kShardsEnding, true),
    staged<TarTarget>("tar", ".tar"),
    staged<LmdbTarget>("lmdb", ".lmdb"),
    staged<Hdf5Target>("hdf5", ".h5"),
    staged<Hdf5Target>("hdf5", ".hdf5"),
    staged<NpzTarget>("npz", ".npz"),
};

}  // namespace

const TargetFormat& target_format(const fs::path& path) {
    const std::string name = path.filename().string();
    const auto* const found =
        std::ranges::find_if(kFormats, [&](const TargetFormat& format) { return name.ends_with(format.ending); });
    if (found == kFormats.end() || name.size() == found->ending.size()) {
        throw InvalidArgument({.where = path.string(),
                               .expected = fmt::format("a target named like data.stk, data.tar, data{}, data.lmdb, "
                                                       "data.h5 or data.npz",
                                                       kShardsEnding),
                               .got = "another name",
                               .hint = "the ending selects the format"});
    }
    // Other programs expand "{00..99}", "%06d" and "*"; here they would be the name of a single file.
    if (found->ending == std::string_view(".tar") && name.find_first_of("{}%*?[") != std::string::npos) {
        throw InvalidArgument(
            {.where = path.string(),
             .expected = fmt::format("shards named NAME{}, or one file without any of {{}}%*?[", kShardsEnding),
             .got = name,
             .hint = "the number of shards follows from --shard-size"});
    }
    return *found;
}

}  // namespace stoker
