// NVTX is a set of headers: they load the tool's library, and do nothing if there is none.
#include "stoker/profile/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

namespace stoker {

bool nvtx_listens() {
    const char* library = std::getenv("NVTX_INJECTION64_PATH");
    return library != nullptr && *library != '\0';
}

NvtxRanges::NvtxRanges(Account& account) : account_(account) {
    account_.listen(this);
}

NvtxRanges::~NvtxRanges() {
    account_.listen(nullptr);
    close();
}

void NvtxRanges::close() noexcept {
    if (open_) {
        nvtxRangePop();
        open_ = false;
    }
}

void NvtxRanges::entered(Phase phase) noexcept {
    close();
    if (phase != Phase::unmeasured) {
        nvtxRangePushA(phase_name(phase).data());  // a literal, so it ends in a zero
        open_ = true;
    }
}

}  // namespace stoker
