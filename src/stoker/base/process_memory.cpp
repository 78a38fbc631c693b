// The peak is read from /proc/self/status: getrusage's ru_maxrss survives exec, so it would include the shell or
// launcher that started this program.
#include "stoker/base/process_memory.h"

#include <fstream>
#include <string>

namespace stoker {

double peak_rss_mb() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) {  // "VmHWM:    5120 kB"
            return std::stod(line.substr(6)) / 1024;
        }
    }
    return 0;
}

}  // namespace stoker
