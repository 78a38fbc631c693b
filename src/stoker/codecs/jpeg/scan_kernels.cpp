// The set for all processors, and the choice between the sets.
#include "stoker/codecs/jpeg/scan_kernels.h"

#include "stoker/base/cpu_features.h"
#include "stoker/codecs/jpeg/scan_lanes.h"

namespace stoker {
namespace {

std::vector<ScanKernels> find_kernels() {
    std::vector<ScanKernels> sets = {kPlainScanKernels};
#if defined(__x86_64__)
    if (cpu_features().avx2) {
        sets.push_back(kAvx2ScanKernels);
    }
#endif
    return sets;
}

}  // namespace

const ScanKernels kPlainScanKernels = {"plain", decode_pieces};

std::span<const ScanKernels> scan_kernels() {
    static const std::vector<ScanKernels> sets = find_kernels();
    return sets;
}

const ScanKernels& best_scan_kernels() {
    return scan_kernels().back();
}

}  // namespace stoker
