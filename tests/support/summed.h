// The sum of tensors over threads that stand for ranks, without a process group.
#pragma once

#include <ATen/core/Tensor.h>

#include <barrier>
#include <mutex>

namespace stoker::testing {

// Each of `ranks` threads calls it with its tensor, which becomes the sum of all.
class Summed {
  public:
    explicit Summed(std::ptrdiff_t ranks) : barrier_(ranks) {}
    void operator()(const at::Tensor& values) {
        {
            const std::lock_guard lock(mutex_);
            sum_ = sum_.defined() ? sum_.add(values) : values.clone();
        }
        barrier_.arrive_and_wait();
        values.copy_(sum_);
        barrier_.arrive_and_wait();
        {
            const std::lock_guard lock(mutex_);
            sum_ = at::Tensor();
        }
        barrier_.arrive_and_wait();
    }

  private:
    std::mutex mutex_;
    std::barrier<> barrier_;
    at::Tensor sum_;
};

}  // namespace stoker::testing
