// The time that a training loop spends on a reading of the host's counters:
//     build/release/bin/monitor_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "stoker/monitor/host_counters.h"

int main() {
    using Clock = std::chrono::steady_clock;
    std::vector<double> us;
    for (int i = 0; i < 2000; ++i) {
        const auto start = Clock::now();
        const stoker::HostCounters counters = stoker::read_host_counters();
        us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
        if (counters.time_ns == 0) {
            return 1;
        }
    }
    std::ranges::sort(us);
    std::printf("read_host_counters: median %.1f us, 95 %% of the readings below %.1f us\n", us[us.size() / 2],
                us[us.size() * 95 / 100]);
}
