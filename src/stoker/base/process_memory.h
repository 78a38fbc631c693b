// Memory of the machine and of this process, as the system reports it.
#pragma once

#include <cstdint>

namespace stoker {

// Physical memory of the machine in bytes; 0 where the system does not report it.
std::uint64_t machine_memory();

// The largest resident memory of this process since this program was started, in MiB; 0 without /proc.
double peak_rss_mb();

}  // namespace stoker
