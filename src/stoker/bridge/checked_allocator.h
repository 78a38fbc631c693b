// LibTorch's memory on the host, checked against what the process may use. The kernel kills a process that exceeds it,
// without a word; with this check a large tensor throws c10::OutOfMemoryError instead, and a step is split as on a GPU.
#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace stoker {

// Passes everything on to `allocator`. Blocks of 1 MiB or more are counted, and `memory_left` is asked each time that
// as much was allocated as it said before: in a loop that frees what it allocates this is seldom. Thread-safe.
class CheckedAllocator final : public c10::Allocator {
  public:
    // `memory_left(unwritten)`: the bytes that may still be allocated, if `unwritten` bytes are allocated but not
    // written. The allocator must outlive this object.
    CheckedAllocator(c10::Allocator& allocator, std::function<std::uint64_t(std::uint64_t unwritten)> memory_left)
        : allocator_(allocator), memory_left_(std::move(memory_left)) {}

    // Throws c10::OutOfMemoryError.
    c10::DataPtr allocate(std::size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return allocator_.raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        allocator_.copy_data(to, from, bytes);
    }

  private:
    void require(std::uint64_t bytes);
    void remember(std::uintptr_t begin, std::size_t bytes);
    std::uint64_t left();
    void trim();

    c10::Allocator& allocator_;
    std::function<std::uint64_t(std::uint64_t unwritten)> memory_left_;
    std::atomic<std::int64_t> unchecked_{0};  // bytes that may be allocated before memory_left_ is asked again

    struct Block {
        std::uintptr_t begin = 0;
        std::size_t bytes = 0;

        std::uint64_t unwritten() const;
    };
    // The last blocks: an operator allocates several before it writes them, and until then no limit counts them. A
    // freed one is unmapped, or another block's, or its pages were written.
    static constexpr std::size_t kRecent = 8;
    std::mutex mutex_;
    std::array<Block, kRecent> recent_{};
    std::size_t next_ = 0;
};

// From now on all tensors on the host are allocated so, against the limits of the system (memory_limit.h). Call it
// once, before other threads begin.
void check_host_tensors();

}  // namespace stoker
