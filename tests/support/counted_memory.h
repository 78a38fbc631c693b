// The bytes that LibTorch's tensors hold on the host, in all threads of the process, and the most that they have held.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
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
        return held_;
    }
    std::int64_t peak() const {
        const std::lock_guard lock(mutex_);
        return peak_;
    }
    void reset_peak() {
        const std::lock_guard lock(mutex_);
        peak_ = held_;
    }

    c10::DataPtr allocate(std::size_t bytes) override {
        void* const data = own_.raw_allocate(bytes);
        const std::lock_guard lock(mutex_);
        if (data != nullptr) {
            sizes_[data] = bytes;
            held_ += static_cast<std::int64_t>(bytes);
            peak_ = std::max(peak_, held_);
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
            const auto block = counted.sizes_.find(data);
            counted.held_ -= static_cast<std::int64_t>(block->second);
            counted.sizes_.erase(block);
        }
        counted.own_.raw_deallocate(data);
    }

    CountedMemory() : own_(*c10::GetCPUAllocator()) {
        constexpr std::uint8_t kHighest = 255;
        c10::SetAllocator(c10::DeviceType::CPU, this, kHighest);
    }

    c10::Allocator& own_;
    mutable std::mutex mutex_;
    std::unordered_map<void*, std::size_t> sizes_;
    std::int64_t held_ = 0;
    std::int64_t peak_ = 0;
};

}  // namespace stoker::testing
