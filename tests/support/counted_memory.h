// The bytes that LibTorch's tensors hold on the host, in all threads of the process, and the most that they have held.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace stoker::testing {

class CountedMemory final : public c10::Allocator {
  public:
    // Stands in for LibTorch's own allocator from now on.
    static CountedMemory& instance() {
        static auto& counted = *new CountedMemory();
        return counted;
    }

    std::int64_t held() const { return held_; }
    std::int64_t peak() const { return peak_; }
    void reset_peak() { peak_ = held_.load(); }

    c10::DataPtr allocate(std::size_t bytes) override {
        c10::DataPtr own = own_.allocate(bytes);
        void* const data = own.get();
        const std::int64_t now = held_ += static_cast<std::int64_t>(bytes);
        for (std::int64_t most = peak_; most < now && !peak_.compare_exchange_weak(most, now);) {
        }
        auto block = std::make_unique<Block>(Block{.own = std::move(own), .bytes = bytes});
        return {data, block.release(), &free_block, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { own_.copy_data(to, from, bytes); }

  private:
    struct Block {
        c10::DataPtr own;
        std::size_t bytes;
    };

    static void free_block(void* context) {
        const std::unique_ptr<Block> block(static_cast<Block*>(context));
        instance().held_ -= static_cast<std::int64_t>(block->bytes);
    }

    CountedMemory() : own_(*c10::GetCPUAllocator()) {
        constexpr std::uint8_t kHighest = 255;
        c10::SetAllocator(c10::DeviceType::CPU, this, kHighest);
    }

    c10::Allocator& own_;
    std::atomic<std::int64_t> held_ = 0;
    std::atomic<std::int64_t> peak_ = 0;
};

}  // namespace stoker::testing
