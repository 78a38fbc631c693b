// Load averages look back a minute, and know nothing of containers; so the cores are tried.
#include "cli/free_cores.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "stoker/base/core_budget.h"

namespace stoker::cli {
namespace {

constexpr std::chrono::milliseconds kTried{10};
constexpr double kFree = 0.9;  // the share of that time that a thread gets where nobody else wants its core

double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

bool cores_are_free() {
    std::atomic<bool> free = true;
    std::vector<std::jthread> threads;
    const auto try_core = [&free] {
        const auto begin = std::chrono::steady_clock::now();
        const double before = processor_seconds();
        while (std::chrono::steady_clock::now() - begin < kTried) {
        }
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        if (processor_seconds() - before < kFree * passed.count()) {
            free = false;
        }
    };
    try {
        for (int i = 0; i < std::max(read_core_budget().usable, 1); ++i) {
            threads.emplace_back(try_core);
        }
    } catch (const std::system_error&) {  // no more threads: nobody's cores are free then
        free = false;
    }
    threads.clear();
    return free;
}

}  // namespace stoker::cli
