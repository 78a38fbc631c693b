// NCCL between GPUs, as c10d has it. Its implementation is a small library, opened at the first use: it needs
// libtorch_cuda.so, which no CPU run loads. The headers are heavy: only this folder's .cpp files include them.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace stoker {

struct NcclRequest {
    c10::intrusive_ptr<c10d::Store> store;  // in which the ranks find each other
    int rank = 0;
    int size = 1;
    at::Device device;  // of this rank, and of no other
    std::chrono::milliseconds timeout;
    bool whole = true;  // connects at once; false: at the first collective
};

using NcclBackend = c10::intrusive_ptr<c10d::Backend>;

// Why tensors on `device` cannot go through NCCL in this process; empty: they can.
std::string why_no_nccl(const at::Device& device);

// The other ranks must also call it. A collective that fails or takes longer than the time-out is ended: the device
// continues with meaningless results, and `getError` says so. Throws what c10d throws, and Unsupported without NCCL.
NcclBackend connect_nccl(const NcclRequest& request);

// For tests: during its lifetime `connect` is called instead, for tensors of any device.
class ReplacedNccl {
  public:
    explicit ReplacedNccl(std::function<NcclBackend(const NcclRequest&)> connect);
    ReplacedNccl(const ReplacedNccl&) = delete;
    ReplacedNccl& operator=(const ReplacedNccl&) = delete;
    ~ReplacedNccl();
};

}  // namespace stoker
