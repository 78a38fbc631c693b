// The account's phases as NVTX ranges of the training thread, for Nsight Systems and other tools of NVIDIA. They have
// the names of the ranges in our own traces.
#pragma once

#include "stoker/records/account.h"

namespace stoker {

// True if such a tool started this process: it names its library in NVTX_INJECTION64_PATH. False in a build without
// CUDA's headers.
bool nvtx_listens();

// From construction to destruction; both on the training thread. `account` must outlive this object.
class NvtxRanges final : private PhaseListener {
  public:
    explicit NvtxRanges(Account& account);
    NvtxRanges(const NvtxRanges&) = delete;
    NvtxRanges& operator=(const NvtxRanges&) = delete;
    ~NvtxRanges() override;

  private:
    void entered(Phase phase) noexcept override;
    void close() noexcept;

    Account& account_;
    bool open_ = false;
};

}  // namespace stoker
