// Counters of all processes, and the rates between two readings. A container sees its own processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct ProcessCounters {
    std::int64_t pid = 0;
    std::string name;  // of the program, at most 15 bytes; any bytes
    char state = '?';  // R runs, S sleeps, D waits for a disk, ...
    std::int64_t threads = 0;
    std::int64_t cpu_ticks = 0;    // of 1/100 s, user and kernel mode
    std::int64_t start_ticks = 0;  // when it started, after the machine: with the pid it names one process
    std::int64_t rss_bytes = 0;
    std::optional<std::int64_t> read_bytes = {};  // from disks; absent for the processes of others
};

// /proc/PID/stat. Empty for other texts. `page_bytes`: the size of a page.
std::optional<ProcessCounters> parse_process(std::string_view stat, std::int64_t page_bytes);

// All processes of `root`/proc. Those that end meanwhile are left out.
std::vector<ProcessCounters> read_processes(const std::string& root = "");

// The words of the process's command line; empty for threads of the kernel and for processes that ended.
std::vector<std::string> read_command(std::int64_t pid, const std::string& root = "");

struct ProcessRates {
    std::int64_t pid = 0;
    std::string name;
    char state = '?';
    std::int64_t threads = 0;
    double cores = 0;  // that it kept busy
    std::int64_t rss_bytes = 0;
    std::optional<double> read_bytes = {};  // a second
};

// The processes of both readings. `seconds` passed between them, more than 0; a second has `ticks_per_second`.
std::vector<ProcessRates> process_rates(std::span<const ProcessCounters> before, std::span<const ProcessCounters> after,
                                        double seconds, double ticks_per_second);

}  // namespace stoker
