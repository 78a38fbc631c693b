// A profile's tables as JSON.
#pragma once

#include <span>
#include <string>

#include "stoker/profile/key_averages.h"
#include "stoker/profile/profile.h"

namespace stoker {

// {"steps", "span_us", "flops", "operators": [{"name", "shapes", "stack", "place", "count", "self_us", "total_us",
// "device_us", "self_bytes", "flops"}...]}
std::string operators_json(const Profile& profile, std::span<const OperatorStats> rows);

// {"devices": [{"device", "peak_bytes", "points": [[us, allocated, reserved]...]}...]}, microseconds from the start of
// the first window. `allocated` on the host also counts from there.
std::string memory_json(const Profile& profile);

}  // namespace stoker
