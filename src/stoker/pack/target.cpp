// The table of formats that can be written.
#include "stoker/pack/target.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pack/staging_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr TargetFormat staged(std::string_view name, std::string_view ending, decltype(TargetFormat::open) open,
                              bool shards = false) {
    return {.name = name,
            .ending = ending,
            .shards = shards,
            .imageless = name == "tar",
            .sounds = name == "tar",
            .unique_keys = name != "lmdb",
            .finished_origin = finished_origin,
            .unfinished_origin = unfinished_origin,
            .open = open,
            .summary = staged_summary};
}

// The first matching ending is used.
constexpr std::array kTargetFormats = {
    TargetFormat{.name = "stk",
                 .ending = ".stk",
                 .shards = true,
                 .imageless = true,
                 .clips = true,
                 .sounds = true,
                 .codec = PackCodec::keep,
                 .finished_origin = finished_stk_origin,
                 .unfinished_origin = unfinished_stk_origin,
                 .open = open_stk_target,
                 .summary = stk_summary},
    staged("tar", kShardsEnding, open_tar_target, true),
    staged("tar", ".tar", open_tar_target),
    staged("lmdb", ".lmdb", open_lmdb_target),
    staged("hdf5", ".h5", open_hdf5_target),
    staged("hdf5", ".hdf5", open_hdf5_target),
    staged("npz", ".npz", open_npz_target),
};

}  // namespace

const TargetFormat& target_format(const fs::path& path) {
    const std::string name = path.filename().string();
    const auto* const found =
        std::ranges::find_if(kTargetFormats, [&](const TargetFormat& format) { return name.ends_with(format.ending); });
    if (found == kTargetFormats.end() || name.size() == found->ending.size()) {
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
