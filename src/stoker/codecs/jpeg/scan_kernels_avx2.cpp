// The same loops with BMI2, which AVX2 implies: its shifts by a variable number take one instruction. CMake compiles
// this file for AVX2; it is called only on processors that have it.
#include "stoker/codecs/jpeg/scan_kernels.h"
#include "stoker/codecs/jpeg/scan_lanes.h"

namespace stoker {

const ScanKernels kAvx2ScanKernels = {"avx2", decode_pieces};

}  // namespace stoker
