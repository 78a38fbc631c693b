// Waits in three stages: spin, yield, sleep. Counters may wrap; they are only compared for inequality.
#include "stoker/fused/team.h"

#include <string>

#include "stoker/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stoker {
namespace {

constexpr int kSpins = 200;    // a few microseconds
constexpr int kYields = 1500;  // a few tenths of a millisecond, unless other threads need the core

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) {
            return;
        }
        relax();
    }
    for (int i = 0; i < kYields; ++i) {
        if (value.load(std::memory_order_acquire) != old) {
            return;
        }
        std::this_thread::yield();
    }
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int size) {
    if (size < 1) {
        throw InvalidArgument({.where = "Team", .expected = "a size of at least 1", .got = std::to_string(size)});
    }
    try {
        for (int member = 1; member < size; ++member) {
            threads_.emplace_back([this, member] { worker_loop(member); });
        }
    } catch (...) {  // no more threads available
        stop();
        throw;
    }
}

Team::~Team() {
    stop();
}

void Team::stop() {
    work_ = nullptr;
    begun_.fetch_add(1);
    begun_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void Team::run(const std::function<void(int)>& work) {
    work_ = &work;
    begun_.fetch_add(1);
    begun_.notify_all();
    work(0);
    barrier();
}

void Team::barrier() {
    const std::uint32_t old = passed_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1) + 1 < size()) {
        wait_while(passed_, old);
        return;
    }
    arrived_.store(0, std::memory_order_relaxed);
    passed_.fetch_add(1);
    passed_.notify_all();
}

void Team::worker_loop(int member) {
    for (std::uint32_t seen = 0;; ++seen) {
        wait_while(begun_, seen);
        if (work_ == nullptr) {
            return;
        }
        (*work_)(member);
        barrier();
    }
}

}  // namespace stoker
