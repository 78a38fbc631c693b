// Local files are read through their maps where those stay; remote ones in any order of few, large requests.
#include "stoker/formats/shard_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/prefetch.h"

namespace stoker {
namespace {

// The part of the map, or nothing if the file is not mapped for good.
std::span<const std::byte> mapped(const ShardFiles::Handle& file, const ByteRange& range) {
    const std::span<const std::byte> map = file.stays_open() ? file->map() : std::span<const std::byte>();
    const bool within = range.offset <= map.size() && range.size <= map.size() - range.offset;
    return within ? map.subspan(range.offset, range.size) : std::span<const std::byte>();
}

}  // namespace

void ShardReader::index(const std::function<std::int64_t(std::size_t shard, const ByteFile& file)>& count) {
    ends_.assign(files_.size(), 0);
    sizes_.assign(files_.size(), 0);
    const auto work = [&](std::int64_t begin, std::int64_t end) {
        for (auto shard = static_cast<std::size_t>(begin); shard < static_cast<std::size_t>(end); ++shard) {
            const ShardFiles::Handle file = files_.open(shard);
            sizes_[shard] = file->size();
            ends_[shard] = count(shard, *file);
        }
    };
    const int threads = files_.remote() ? kRemoteThreads : cpu_cores().usable;
    parallel_for(threads, static_cast<std::int64_t>(files_.size()), 1, work);
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    bytes_ = std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0});
    map_or_read_ = MapOrRead(bytes_);
}

ShardReader::Place ShardReader::place(std::int64_t index) const {
    const auto shard = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {.shard = shard, .sample = index - (shard == 0 ? 0 : ends_[shard - 1])};
}

void ShardReader::check_range(std::size_t shard, const ByteRange& range) const {
    if (range.offset > sizes_[shard] || range.size > sizes_[shard] - range.offset) {
        throw DataError({.path = shown_name(files_.name(shard))},
                        {.where = "shard",
                         .expected = fmt::format("a sample within {} bytes", sizes_[shard]),
                         .got = fmt::format("{} bytes at {}", range.size, range.offset)});
    }
}

std::span<const std::byte> ShardReader::read(std::size_t shard, const ByteRange& range, Buffer& storage) const {
    check_range(shard, range);
    const ShardFiles::Handle file = files_.open(shard);
    if (const auto part = mapped(file, range); !part.empty()) {
        return map_or_read_.get(part, *file, range.offset, storage);
    }
    storage.resize(static_cast<std::size_t>(range.size));
    file->read(range.offset, storage.bytes());
    return storage.bytes();
}

void ShardReader::prefetch(
    std::span<const std::int64_t> indices,
    const std::function<void(const Place& at, std::vector<ByteRange>& ranges)>& add_ranges) const {
    if (const auto wrong = std::ranges::find_if(indices, [&](std::int64_t i) { return i < 0 || i >= size(); });
        wrong != indices.end()) {
        throw InvalidArgument({.where = "sample index",
                               .expected = fmt::format("0 to {}", size() - 1),
                               .got = fmt::format("{}", *wrong)});
    }
    std::vector<ByteRange> ranges;
    if (!files_.remote()) {
        std::size_t ahead = 0;
        for (const std::int64_t index : indices) {
            const Place at = place(index);
            ranges.clear();
            add_ranges(at, ranges);
            std::erase_if(ranges, [](const ByteRange& range) { return range.size == 0; });
            if (ranges.empty()) {
                continue;
            }
            const ShardFiles::Handle file = files_.open(at.shard);
            for (const ByteRange& range : ranges) {
                if (const auto part = mapped(file, range); !part.empty()) {
                    prefetch_bytes(part, ahead++, [&] { file->will_need(range.offset, range.size); });
                }
            }
        }
        return;
    }
    std::vector<std::int64_t> sorted(indices.begin(), indices.end());
    std::ranges::sort(sorted);
    for (auto at = sorted.begin(); at != sorted.end();) {
        const std::size_t shard = place(*at).shard;
        ranges.clear();
        for (; at != sorted.end() && *at < ends_[shard]; ++at) {
            add_ranges(place(*at), ranges);
        }
        std::erase_if(ranges, [](const ByteRange& range) { return range.size == 0; });
        files_.open(shard)->prefetch(merge_ranges(ranges, kNearBytes));
    }
}

}  // namespace stoker
