// LibTorch's memory on the host, with one allocation that fails: a test that lets each of them fail in turn shows that
// a function can run out of memory anywhere.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace stoker::testing {

class FailingAllocator final : public c10::Allocator {
  public:
    // Stands in for LibTorch's own allocator from now on.
    static FailingAllocator& instance() {
        static auto& failing = *new FailingAllocator();
        return failing;
    }

    // Lets allocation `number` from now on fail, counted from 0.
    void fail(std::int64_t number) { left_ = number; }
    void fail_none() { left_ = kNone; }
    // Whether it has failed.
    bool failed() const { return left_ < 0; }

    // During its lifetime every allocation fails as operations on a lost device do.
    class Lost {
      public:
        Lost() { instance().lost_ = true; }
        Lost(const Lost&) = delete;
        Lost& operator=(const Lost&) = delete;
        ~Lost() { instance().lost_ = false; }
    };

    // For its lifetime none fails, and none is counted.
    class Pause {
      public:
        Pause() : left_(std::exchange(instance().left_, kNone)) {}
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;
        ~Pause() { instance().left_ = left_; }

      private:
        std::int64_t left_;
    };

    c10::DataPtr allocate(std::size_t bytes) override {
        if (lost_) {
            throw lost_device();
        }
        // A number that an operation turns into a tensor has memory on the CPU alone.
        const bool counts = left_ >= 0 && left_ != kNone && bytes > sizeof(double);
        if (counts && left_-- == 0) {
            C10_THROW_ERROR(OutOfMemoryError, "DefaultCPUAllocator: can't allocate memory: a test's is full");
        }
        return own_.allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return own_.raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { own_.copy_data(to, from, bytes); }

    static c10::AcceleratorError lost_device() {
        constexpr int kLaunchFailure = 719;
        return {{__func__, __FILE__, __LINE__}, kLaunchFailure, "CUDA error: unspecified launch failure\nCompile with"};
    }

  private:
    FailingAllocator() : own_(*c10::GetCPUAllocator()) {
        constexpr std::uint8_t kHighest = 255;
        c10::SetAllocator(c10::DeviceType::CPU, this, kHighest);
    }

    static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    c10::Allocator& own_;
    std::int64_t left_ = kNone;
    std::atomic<bool> lost_ = false;
};

}  // namespace stoker::testing
