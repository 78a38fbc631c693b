#include "stoker/monitor/host_counters.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <vector>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::optional<std::int64_t> number_in(const std::string& path, std::string_view name) {
    const auto text = read_counter_file(path);
    return text ? named_number(*text, name) : std::nullopt;
}

// statm: "size resident shared ...", in pages. Shared pages are those of mapped files, which the kernel takes back if
// memory is short.
std::optional<std::int64_t> resident_bytes(const std::string& path, std::int64_t page) {
    const auto text = read_counter_file(path);
    std::string_view words = text ? std::string_view(*text) : "";
    take_word(words);
    const std::optional<std::int64_t> resident = take_count(words);
    const std::optional<std::int64_t> shared = take_count(words);
    return resident && shared && *shared <= *resident ? bytes_of(*resident - *shared, page) : std::nullopt;
}

// The sum over the cores of this process's affinity.
std::optional<CpuTimes> core_times(const std::string& path) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;  // not if cpu_set_t has too few bits
    const auto text = read_counter_file(path);
    std::optional<CpuTimes> sum;
    for (const CoreTimes& core : parse_cpu_times(text ? std::string_view(*text) : "")) {
        if (!known || (core.core < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(core.core), &usable))) {
            sum = sum.value_or(CpuTimes());
            *sum += core.times;
        }
    }
    return sum;
}

}  // namespace

HostCounters read_host_counters(const std::string& root) {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    HostCounters counters;
    counters.time_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    counters.user_seconds = seconds(used.ru_utime);
    counters.system_seconds = seconds(used.ru_stime);
    counters.major_faults = used.ru_majflt;
    counters.read_bytes = number_in(root + "/proc/self/io", "read_bytes:");
    counters.rss_bytes = resident_bytes(root + "/proc/self/statm", page);
    counters.cores = core_times(root + "/proc/stat");
    counters.throttling = read_throttling(root);
    counters.swap_in_bytes = bytes_of(number_in(root + "/proc/vmstat", "pswpin"), page);
    return counters;
}

// schedstat: nanoseconds on a core, nanoseconds of waiting for one, and how often it had one.
std::optional<std::int64_t> thread_core_wait_ns(const std::string& root) {
    const auto text = read_counter_file(root + "/proc/thread-self/schedstat");
    std::string_view words = text ? std::string_view(*text) : "";
    take_word(words);
    return take_count(words, std::numeric_limits<std::int64_t>::max());
}

HostRates rates(const HostCounters& before, const HostCounters& after) {
    HostRates result;
    result.rss_bytes = after.rss_bytes;
    result.seconds = 1e-9 * static_cast<double>(after.time_ns - before.time_ns);
    if (result.seconds <= 0) {
        result.seconds = 0;
        return result;
    }
    const auto per_second = [&](std::optional<double> amount) {
        return amount ? std::optional(*amount / result.seconds) : std::nullopt;
    };
    result.user_cores = (after.user_seconds - before.user_seconds) / result.seconds;
    result.system_cores = (after.system_seconds - before.system_seconds) / result.seconds;
    result.major_faults = static_cast<double>(after.major_faults - before.major_faults) / result.seconds;
    result.read_bytes = per_second(difference(before.read_bytes, after.read_bytes));
    result.swap_in_bytes = per_second(difference(before.swap_in_bytes, after.swap_in_bytes));
    result.throttled = throttled_share(before.throttling, after.throttling);
    const auto shares =
        before.cores && after.cores ? cpu_shares(*before.cores, *after.cores) : std::optional<CpuShares>();
    if (shares) {
        result.busy = shares->busy();
        result.iowait = shares->iowait;
        result.steal = shares->steal;
    }
    return result;
}

}  // namespace stoker
