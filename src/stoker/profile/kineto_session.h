// LibTorch's profiler, Kineto, for spans of a run. LibTorch's headers stay in the source.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "stoker/profile/profile.h"

namespace stoker {

struct KinetoOptions {
    bool cuda = false;     // also kernels, copies and the runtime's calls
    bool shapes = true;    // of the ops' inputs; FLOPs need them
    bool stacks = false;   // of TorchScript code
    bool modules = false;  // of TorchScript
    bool memory = true;
    bool flops = true;
};

// One session at a time in a process; all calls come from the training thread.
class KinetoSession {
  public:
    explicit KinetoSession(const KinetoOptions& options) : options_(options) {}
    KinetoSession(const KinetoSession&) = delete;
    KinetoSession& operator=(const KinetoSession&) = delete;
    ~KinetoSession();

    // Loads and sets up Kineto, which takes long the first time.
    void prepare();
    // Records from here on. Calls `prepare` where that was not done.
    void start();
    // Ends the recording and appends its events to `profile`. Throws what LibTorch throws.
    void stop(Profile& profile);

    bool running() const { return running_; }
    // Operators and ranges of all threads since `start`.
    std::int64_t ops() const { return ops_.load(std::memory_order_relaxed); }

  private:
    void count_ops();
    void stop_counting();

    const KinetoOptions options_;
    bool prepared_ = false;
    bool running_ = false;
    // While it records, LibTorch warns of every release of memory that was allocated before.
    int log_level_ = 0;
    static inline std::atomic<std::int64_t> ops_ = 0;  // LibTorch's callbacks are functions
    std::optional<std::uint64_t> counter_ = {};        // the callback's handle
};

}  // namespace stoker
