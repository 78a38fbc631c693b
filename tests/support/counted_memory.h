// The bytes that LibTorch's tensors hold on the host, and the most that they have held: in all threads of the process,
// or of those that one thread has allocated.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace stoker::testing {

class CountedMemory final : public c10::Allocator {
  public:
    // Stands in for LibTorch's own allocator from now on.
    static CountedMemory& instance() {
        static auto& counted = *new CountedMemory();
        return counted;
    }

    std::int64_t held() const {
        const std::lock_guard lock(mutex_);
        return all_.held;
    }
    std::int64_t peak() const {
        const std::lock_guard lock(mutex_);
        return all_.peak;
    }
    void reset_peak() {
        const std::lock_guard lock(mutex_);
        all_.peak = all_.held;
    }
    // Counts the calling thread's allocations from now on. When earlier tensors go is another thread's choice.
    void begin_peak_of_thread() {
        const std::lock_guard lock(mutex_);
        threads_[std::this_thread::get_id()] = {.first = allocations_};
    }
    std::int64_t peak_of_thread() const {
        const std::lock_guard lock(mutex_);
        return threads_.at(std::this_thread::get_id()).peak;
    }

    c10::DataPtr allocate(std::size_t bytes) override {
        void* const data = own_.raw_allocate(bytes);
        const std::lock_guard lock(mutex_);
        if (data != nullptr) {
            const std::thread::id thread = std::this_thread::get_id();
            blocks_[data] = {static_cast<std::int64_t>(bytes), thread, allocations_++};
            all_.add(static_cast<std::int64_t>(bytes));
            threads_[thread].add(static_cast<std::int64_t>(bytes));
        }
        return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { own_.copy_data(to, from, bytes); }

  private:
    static void free_block(void* data) {
        CountedMemory& counted = instance();
        if (data != nullptr) {
            const std::lock_guard lock(counted.mutex_);
            const auto block = counted.blocks_.find(data);
            counted.all_.add(-block->second.bytes);
            if (Sum& own = counted.threads_[block->second.thread]; block->second.number >= own.first) {
                own.add(-block->second.bytes);
            }
            counted.blocks_.erase(block);
        }
        counted.own_.raw_deallocate(data);
    }

    CountedMemory() : own_(*c10::GetCPUAllocator()) {
        constexpr std::uint8_t kHighest = 255;
        c10::SetAllocator(c10::DeviceType::CPU, this, kHighest);
    }

    struct Block {
        std::int64_t bytes;
        std::thread::id thread;
        std::int64_t number;  // of the allocation
    };
    struct Sum {
        std::int64_t first = 0;  // the number of the first allocation that counts
        std::int64_t held = 0;
        std::int64_t peak = 0;

        void add(std::int64_t bytes) {
            held += bytes;
            peak = std::max(peak, held);
        }
    };

    c10::Allocator& own_;
    mutable std::mutex mutex_;
    std::unordered_map<void*, Block> blocks_;
    std::int64_t allocations_ = 0;
    Sum all_;
    std::unordered_map<std::thread::id, Sum> threads_;
};

}  // namespace stoker::testing
