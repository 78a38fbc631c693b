// How much memory this process may use. Sizes that a file states are checked against it before memory is allocated,
// because the kernel kills a process that exceeds its cgroup's limit, without an error that could be reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "stoker/base/error.h"

namespace stoker {

struct MemoryLimit {
    std::uint64_t total = 0;       // bytes that the process may use, together with others under the same limit
    std::uint64_t available = 0;   // of them, not in use; the page cache is not counted as in use
    std::string_view source = {};  // "the cgroup allows"
};

// The places of the limits; tests pass others.
struct MemorySources {
    std::string cgroups = "/sys/fs/cgroup";         // cgroup v2 is mounted here, or v1 in memory/
    std::string own_cgroups = "/proc/self/cgroup";  // lists the groups of this process
    std::string meminfo = "/proc/meminfo";
};

// The limit with the least memory available: the machine's, that of this process's cgroup or one of its parents
// (memory.max and memory.high of v2, memory.limit_in_bytes of v1), or RLIMIT_AS. The value given to set_memory_limit
// replaces them all. Reads about ten small files.
MemoryLimit memory_limit(const MemorySources& sources = {});

// The tightest of these limits, for this process's cgroup and its parents; a total of 0 without one.
MemoryLimit cgroup_limit(const MemorySources& sources = {});

// data.memory: the bytes of memory that this process may use; 0: the system's limit.
void set_memory_limit(std::int64_t bytes);

// The bytes that may be allocated: those available, without memory that is allocated or claimed but not used yet, and
// without a reserve for everything that is not checked: an eighth of the total, at most 1 GiB and at most a quarter of
// the available bytes.
std::uint64_t memory_left();

// The same against the limits of the system alone, without data.memory and without what is claimed: for memory that no
// key limits, such as LibTorch's. The reserve never shrinks: LibTorch's operators allocate buffers that nothing checks.
// `unwritten`: bytes that are allocated but not written; ignored under RLIMIT_AS, which counts them already.
std::uint64_t system_memory_left(std::uint64_t unwritten = 0);

// The bytes of a block's pages that are not in memory: not written yet, or swapped out. 0 if the block was unmapped.
std::uint64_t unwritten_bytes(const std::byte* data, std::size_t bytes);

// Memory that is allocated or claimed but not used yet, which memory_limit() counts as available.
std::uint64_t promised_memory();

// More memory was needed than is left.
class MemoryError : public IoError {
  public:
    // `where`: a path, a member of a file; empty: "host memory". `hint` is about what to lower; how the limit can be
    // raised is added.
    MemoryError(std::string where, std::uint64_t bytes, std::uint64_t left, const std::string& hint);

    // The same error of a part of `outer`.
    MemoryError within(const std::string& outer) const;

  private:
    MemoryError(std::string where, const ErrorInfo& info);

    std::string where_;
    ErrorInfo info_;
};

// Throws MemoryError if `bytes` are more than memory_left(). Below 1 MiB nothing is checked.
void require_memory(std::uint64_t bytes, const std::string& where, const std::string& hint = {});

// require_memory for memory that a library will allocate, which other threads' checks respect until the claim ends.
class MemoryClaim {
  public:
    explicit MemoryClaim(std::uint64_t bytes, const std::string& where = {}, const std::string& hint = {});
    MemoryClaim(const MemoryClaim&) = delete;
    MemoryClaim& operator=(const MemoryClaim&) = delete;
    ~MemoryClaim();

    // Ends the claim to all but `bytes`: the others are allocated now. A smaller claim does not change.
    void shrink_to(std::uint64_t bytes);
    std::uint64_t bytes() const { return bytes_; }

  private:
    std::uint64_t bytes_;
};

// Allocates a large block for an allocator: checks and allocates under one lock, and registers the block, since the
// system does not count pages as used before they are written. `allocate()` returns the block or throws.
std::byte* allocate_checked(std::size_t bytes, std::byte* (*allocate)(std::size_t bytes));
void forget_checked(const std::byte* data) noexcept;

// How many blocks of 256 MiB or more this thread has allocated by allocate_checked. A thread whose buffers grew for one
// huge image frees them when the number has changed.
std::uint64_t huge_allocations();

// For messages: "12 MiB of the 500 MiB that the cgroup allows are free".
std::string memory_text();

// Calls `call` and adds `outer` to the place of its MemoryErrors.
template <typename Call>
decltype(auto) with_memory_place(const std::string& outer, const Call& call) {
    try {
        return call();
    } catch (const MemoryError& error) {
        throw error.within(outer);
    }
}

}  // namespace stoker
