// Counters of disks, and the rates between two readings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// Since the machine started. The times are milliseconds.
struct DiskCounters {
    std::string name;  // "nvme0n1"
    std::int64_t reads = 0;
    std::int64_t read_bytes = 0;
    std::int64_t read_ms = 0;  // from the request to its answer, summed over the requests
    std::int64_t writes = 0;
    std::int64_t write_bytes = 0;
    std::int64_t write_ms = 0;
    std::int64_t busy_ms = 0;  // with at least one request under way
};

// The whole disks in /proc/diskstats: no partitions, no loop, ram, zram and optical devices, and none that was never
// used.
std::vector<DiskCounters> parse_disks(std::string_view diskstats);

// `root` replaces "/" in tests.
std::vector<DiskCounters> read_disks(const std::string& root = "");

struct DiskRates {
    std::string name;
    double read_bytes = 0;  // a second
    double write_bytes = 0;
    double reads = 0;  // requests a second
    double writes = 0;
    std::optional<double> read_ms = {};  // mean time of a request; absent without one
    std::optional<double> write_ms = {};
    double busy = 0;  // share of the time with a request under way; a disk that answers many at once may do more at 1
};

// The disks of both readings. `seconds` passed between them, more than 0.
std::vector<DiskRates> disk_rates(std::span<const DiskCounters> before, std::span<const DiskCounters> after,
                                  double seconds);

}  // namespace stoker
