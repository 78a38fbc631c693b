#include "stoker/monitor/disk_counters.h"

#include <algorithm>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

constexpr std::int64_t kSector = 512;  // bytes, for the kernel's counters, whatever the disk's own are

bool is_digits(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "sda1" is a partition of "sda", and "nvme0n1p1" one of "nvme0n1": a 'p' follows names that end with a digit.
bool is_partition_of(std::string_view name, std::string_view disk) {
    if (name.size() <= disk.size() || !name.starts_with(disk)) {
        return false;
    }
    name.remove_prefix(disk.size());
    if (!is_digits(disk.substr(disk.size() - 1))) {
        return is_digits(name);
    }
    return name.front() == 'p' && is_digits(name.substr(1));
}

bool is_left_out(std::string_view name) {
    for (const std::string_view kind : {"loop", "ram", "zram", "sr", "fd"}) {
        if (name.starts_with(kind) && is_digits(name.substr(kind.size()))) {
            return true;
        }
    }
    return false;
}

// "254 0 vda reads merged sectors ms writes merged sectors ms in-flight busy-ms ...".
std::optional<DiskCounters> parse_disk(std::string_view line) {
    take_word(line);
    take_word(line);
    DiskCounters disk{.name = std::string(take_word(line))};
    std::int64_t values[10] = {};
    for (std::int64_t& value : values) {
        const auto number = take_count(line);
        if (!number) {
            return std::nullopt;
        }
        value = *number;
    }
    const auto [reads, reads_merged, read_sectors, read_ms, writes, writes_merged, written_sectors, write_ms, in_flight,
                busy_ms] = values;
    disk.reads = reads;
    disk.read_bytes = read_sectors * kSector;
    disk.read_ms = read_ms;
    disk.writes = writes;
    disk.write_bytes = written_sectors * kSector;
    disk.write_ms = write_ms;
    disk.busy_ms = busy_ms;
    return disk;
}

}  // namespace

std::vector<DiskCounters> parse_disks(std::string_view diskstats) {
    std::vector<DiskCounters> all;
    for_each_line(diskstats, [&](std::string_view line) {
        if (auto disk = parse_disk(line)) {
            all.push_back(std::move(*disk));
        }
    });
    std::vector<DiskCounters> disks;
    std::ranges::copy_if(all, std::back_inserter(disks), [&](const DiskCounters& disk) {
        return !is_left_out(disk.name) && disk.reads + disk.writes > 0 &&
               std::ranges::none_of(all,
                                    [&](const DiskCounters& other) { return is_partition_of(disk.name, other.name); });
    });
    return disks;
}

std::vector<DiskCounters> read_disks(const std::string& root) {
    const auto text = read_counter_file(root + "/proc/diskstats");
    return parse_disks(text ? std::string_view(*text) : "");
}

std::vector<DiskRates> disk_rates(std::span<const DiskCounters> before, std::span<const DiskCounters> after,
                                  double seconds) {
    std::vector<DiskRates> rates;
    for (const DiskCounters& now : after) {
        const auto found = std::ranges::find(before, now.name, &DiskCounters::name);
        if (found == before.end()) {
            continue;
        }
        const auto passed = [&](std::int64_t DiskCounters::*counter) {
            return difference((*found).*counter, now.*counter).value_or(0);  // 0 for a disk that was replaced
        };
        const bool replaced =
            !difference(found->reads, now.reads).has_value() || !difference(found->writes, now.writes).has_value();
        // The kernel writes milliseconds in 32 bits.
        const auto passed_ms = [&](std::int64_t DiskCounters::*counter) {
            constexpr std::int64_t kWrap = std::int64_t{1} << 32;
            const std::int64_t old = (*found).*counter;
            const bool wrapped = !replaced && old < kWrap && old - now.*counter > kWrap / 2;
            return difference(old, now.*counter + (wrapped ? kWrap : 0)).value_or(0);
        };
        const auto mean = [&](double ms, double requests) {
            return requests > 0 ? std::optional(ms / requests) : std::nullopt;
        };
        const double reads = passed(&DiskCounters::reads);
        const double writes = passed(&DiskCounters::writes);
        rates.push_back({.name = now.name,
                         .read_bytes = passed(&DiskCounters::read_bytes) / seconds,
                         .write_bytes = passed(&DiskCounters::write_bytes) / seconds,
                         .reads = reads / seconds,
                         .writes = writes / seconds,
                         .read_ms = mean(passed_ms(&DiskCounters::read_ms), reads),
                         .write_ms = mean(passed_ms(&DiskCounters::write_ms), writes),
                         .busy = std::min(passed_ms(&DiskCounters::busy_ms) / (1000 * seconds), 1.0)});
    }
    return rates;
}

}  // namespace stoker
