// The setting that the program adds to its own environment, for those who start other programs.
#pragma once

namespace stoker::cli {

inline constexpr const char* kSpinSetting = "GOMP_SPINCOUNT=1000";

}  // namespace stoker::cli
