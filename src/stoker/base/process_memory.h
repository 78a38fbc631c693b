// Memory of this process, as the system reports it.
#pragma once

namespace stoker {

// The largest resident memory of this process since this program was started, in MiB; 0 without /proc.
double peak_rss_mb();

}  // namespace stoker
