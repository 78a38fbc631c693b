// A limit that is absent, malformed or "max" counts as none. Files of the page cache are also charged to a cgroup, but
// the kernel drops them before it kills a process.
#include "stoker/base/memory_limit.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "stoker/base/byte_text.h"
#include "stoker/base/cgroup.h"

namespace stoker {
namespace {

constexpr std::uint64_t kUnchecked = std::uint64_t{1} << 20;  // smaller sizes are not checked
constexpr std::uint64_t kHuge = std::uint64_t{256} << 20;

std::uint64_t number_in(const std::string& path) {
    std::uint64_t value = 0;
    return std::ifstream(path) >> value ? value : 0;
}

// The sum of the values of these names in a file of lines "name value ..."; 0 where there are none.
std::uint64_t sum_of(const std::string& path, std::initializer_list<std::string_view> names) {
    std::ifstream file(path);
    std::uint64_t sum = 0;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        std::uint64_t value = 0;
        sum += words >> name >> value && std::ranges::find(names, name) != names.end() ? value : 0;
    }
    return sum;
}

void tighten(MemoryLimit& tightest, const MemoryLimit& other) {
    if (other.total > 0 && other.available < tightest.available) {
        tightest = other;
    }
}

MemoryLimit machine_limit(const std::string& meminfo) {
    const std::uint64_t total = 1024 * sum_of(meminfo, {"MemTotal:"});
    return {.total = total, .available = 1024 * sum_of(meminfo, {"MemAvailable:"}), .source = "the machine has"};
}

// One group's limit; a total of 0 for none.
MemoryLimit group_limit(std::uint64_t limit, std::uint64_t used, std::uint64_t page_cache) {
    used -= std::min(used, page_cache);
    return {.total = limit, .available = limit - std::min(limit, used), .source = "the cgroup allows"};
}

constexpr std::string_view kAddressSource = "ulimit -v allows";

MemoryLimit address_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return {};
    }
    const std::uint64_t used = number_in("/proc/self/statm") * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return {.total = limit.rlim_cur,
            .available = limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, used),
            .source = kAddressSource};
}

MemoryLimit given_limit(std::uint64_t bytes) {
    const std::uint64_t used = 1024 * sum_of("/proc/self/status", {"RssAnon:", "RssShmem:"});
    return {.total = bytes, .available = bytes - std::min(bytes, used), .source = "data.memory allows"};
}

std::atomic<std::uint64_t> given_bytes = 0;

// Memory kept free for unchecked allocations. Less than all available, so that small needs are met in a full machine.
std::uint64_t reserve_of(const MemoryLimit& limit) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    return std::min({limit.total / 8, kMost, limit.available / 4});
}

// Memory that is spoken for, but that the system does not count as used.
class Promised {
  public:
    std::mutex& mutex() { return mutex_; }

    // All of these are called under the lock.
    std::uint64_t left() const {
        const MemoryLimit limit = memory_limit();
        return limit.available - std::min(limit.available, reserve_of(limit) + sum(limit));
    }
    // The address space counts blocks when they are allocated, the other limits when they are written.
    std::uint64_t sum(const MemoryLimit& limit) const {
        return claimed_ + (limit.source == kAddressSource ? 0 : unwritten());
    }
    void claim(std::uint64_t bytes) { claimed_ += bytes; }
    void release(std::uint64_t bytes) { claimed_ -= bytes; }
    void add(const std::byte* data, std::size_t bytes) { blocks_.emplace(data, bytes); }
    void remove(const std::byte* data) { blocks_.erase(data); }

  private:
    // Bytes of the registered blocks that are not written.
    std::uint64_t unwritten() const {
        std::uint64_t bytes = 0;
        for (const auto& [data, size] : blocks_) {
            bytes += unwritten_bytes(data, size);
        }
        return bytes;
    }

    std::mutex mutex_;
    std::uint64_t claimed_ = 0;
    std::map<const std::byte*, std::size_t> blocks_;
};

Promised& promised() {
    static auto& all = *new Promised;  // never destroyed: buffers of static storage duration are freed at exit
    return all;
}

thread_local std::uint64_t huge_count = 0;

std::string as_text(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    return byte_text(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

std::string text_of(const MemoryLimit& limit) {
    return fmt::format("{} of the {} that {} are free", as_text(limit.available), as_text(limit.total), limit.source);
}

}  // namespace

MemoryLimit cgroup_limit(const MemorySources& sources) {
    MemoryLimit tightest{.total = 0, .available = ~std::uint64_t{0}};
    for (const std::string& group : cgroup_folders(sources.cgroups, "", sources.own_cgroups)) {
        const std::uint64_t most = number_in(group + "/memory.max");
        const std::uint64_t high = number_in(group + "/memory.high");  // beyond it the process is slowed down
        if (const std::uint64_t limit = most == 0 || high == 0 ? most + high : std::min(most, high)) {
            tighten(tightest,
                    group_limit(limit, number_in(group + "/memory.current"),
                                sum_of(group + "/memory.stat", {"inactive_file", "active_file", "slab_reclaimable"})));
        }
    }
    for (const std::string& group : cgroup_folders(sources.cgroups + "/memory", "memory", sources.own_cgroups)) {
        constexpr std::uint64_t kNone = std::uint64_t{1} << 60;  // v1 says about 2^63
        if (const std::uint64_t limit = number_in(group + "/memory.limit_in_bytes"); limit > 0 && limit < kNone) {
            tighten(tightest,
                    group_limit(limit, number_in(group + "/memory.usage_in_bytes"),
                                sum_of(group + "/memory.stat", {"total_inactive_file", "total_active_file"})));
        }
    }
    return tightest;
}

static MemoryLimit system_limit(const MemorySources& sources) {
    MemoryLimit tightest = machine_limit(sources.meminfo);
    if (tightest.total == 0) {  // without /proc
        tightest = {.total = ~std::uint64_t{0}, .available = ~std::uint64_t{0}, .source = "the machine has"};
    }
    tighten(tightest, cgroup_limit(sources));
    tighten(tightest, address_limit());
    return tightest;
}

MemoryLimit memory_limit(const MemorySources& sources) {
    const std::uint64_t given = given_bytes.load(std::memory_order_relaxed);
    return given > 0 ? given_limit(given) : system_limit(sources);
}

std::uint64_t system_memory_left(std::uint64_t unwritten) {
    static std::atomic<std::uint64_t> most = 0;
    const MemoryLimit limit = system_limit({});
    most = std::max(most.load(), reserve_of(limit));
    const std::uint64_t kept =
        std::min(most.load(), limit.total / 8) + (limit.source == kAddressSource ? 0 : unwritten);
    return limit.available - std::min(limit.available, kept);
}

std::uint64_t unwritten_bytes(const std::byte* data, std::size_t bytes) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto end = reinterpret_cast<std::uintptr_t>(data) + bytes;
    std::array<unsigned char, 16384> resident;  // of a piece of the block, 64 MiB
    std::uint64_t unwritten = 0;
    for (std::uintptr_t at = reinterpret_cast<std::uintptr_t>(data) / page * page; at < end;) {
        const std::size_t pages = std::min((end - at + page - 1) / page, resident.size());
        if (::mincore(reinterpret_cast<void*>(at), pages * page, resident.data()) != 0) {
            return 0;
        }
        unwritten += page * static_cast<std::uint64_t>(
                                std::count_if(resident.begin(), resident.begin() + static_cast<std::ptrdiff_t>(pages),
                                              [](unsigned char one) { return (one & 1) == 0; }));
        at += pages * page;
    }
    return unwritten;
}

void set_memory_limit(std::int64_t bytes) {
    given_bytes.store(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)), std::memory_order_relaxed);
}

std::uint64_t memory_left() {
    const std::lock_guard lock(promised().mutex());
    return promised().left();
}

std::uint64_t promised_memory() {
    const std::lock_guard lock(promised().mutex());
    return promised().sum(memory_limit());
}

MemoryError::MemoryError(std::string where, std::uint64_t bytes, std::uint64_t left, const std::string& hint)
    : MemoryError(std::move(where),
                  {.where = {},
                   .expected = fmt::format("a size of at most {} in memory", as_text(left)),
                   .got = fmt::format("{}, where {}", as_text(bytes), text_of(memory_limit())),
                   .hint = fmt::format("{}{}give the process more memory, or a higher limit: data.memory of a recipe, "
                                       "or `--memory`",
                                       hint, hint.empty() ? "" : ", ")}) {}

MemoryError::MemoryError(std::string where, const ErrorInfo& info)
    : IoError(ErrorInfo{.where = where.empty() ? "host memory" : where,
                        .expected = info.expected,
                        .got = info.got,
                        .hint = info.hint}),
      where_(std::move(where)),
      info_(info) {}

MemoryError MemoryError::within(const std::string& outer) const {
    return {where_.empty() ? outer : where_.starts_with(outer) ? where_ : fmt::format("{}: {}", outer, where_), info_};
}

void require_memory(std::uint64_t bytes, const std::string& where, const std::string& hint) {
    if (bytes < kUnchecked) {
        return;
    }
    if (const std::uint64_t left = memory_left(); bytes > left) {
        throw MemoryError(where, bytes, left, hint);
    }
}

MemoryClaim::MemoryClaim(std::uint64_t bytes, const std::string& where, const std::string& hint)
    : bytes_(bytes < kUnchecked ? 0 : bytes) {
    if (bytes_ == 0) {
        return;
    }
    const std::lock_guard lock(promised().mutex());
    if (const std::uint64_t left = promised().left(); bytes_ > left) {
        throw MemoryError(where, bytes, left, hint);
    }
    promised().claim(bytes_);
}

MemoryClaim::~MemoryClaim() {
    shrink_to(0);
}

void MemoryClaim::shrink_to(std::uint64_t bytes) {
    if (bytes < bytes_) {
        const std::lock_guard lock(promised().mutex());
        promised().release(bytes_ - bytes);
        bytes_ = bytes;
    }
}

std::byte* allocate_checked(std::size_t bytes, std::byte* (*allocate)(std::size_t bytes)) {
    const std::lock_guard lock(promised().mutex());
    if (const std::uint64_t left = promised().left(); bytes > left) {
        throw MemoryError("", bytes, left,
                          "use a smaller data.batch_size, data.prefetch, data.workers or data.cache_bytes");
    }
    std::byte* data = allocate(bytes);
    promised().add(data, bytes);
    huge_count += bytes >= kHuge ? 1 : 0;
    return data;
}

void forget_checked(const std::byte* data) noexcept {
    const std::lock_guard lock(promised().mutex());
    promised().remove(data);
}

std::uint64_t huge_allocations() {
    return huge_count;
}

std::string memory_text() {
    return text_of(memory_limit());
}

}  // namespace stoker
