// The data of a profile, free of LibTorch: events of the host and of devices, memory, the loader's work. kineto_session
// fills it; tables and exports read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/pipeline/work_log.h"

namespace stoker {

enum class ProfiledKind : std::uint8_t {
    op,         // of LibTorch, or a range that tools expect as one
    range,      // named by us: a phase, a step
    runtime,    // a call of the CUDA runtime or driver
    kernel,     // on a device, as the next four
    copy,       // memcpy
    fill,       // memset
    gpu_range,  // the kernels of a range
    sync,
    overhead,  // of the profiler
};

// True for what runs on a device and not on a thread of the host.
constexpr bool on_device(ProfiledKind kind) {
    return kind == ProfiledKind::kernel || kind == ProfiledKind::copy || kind == ProfiledKind::fill ||
           kind == ProfiledKind::gpu_range || kind == ProfiledKind::sync;
}

// Times are nanoseconds since 1970.
struct ProfileEvent {
    std::string name = {};
    ProfiledKind kind = ProfiledKind::op;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t thread = 0;          // the system's number; of a device event its stream
    int device = 0;                   // of device events
    std::uint64_t id = 0;             // of an op, or what links a launch with its kernel; 0: none
    std::uint64_t op = 0;             // the id of the op that a launch or device event belongs to; 0: none
    std::int64_t sequence = -1;       // links the forward and the backward of an op; -1: none
    std::int64_t forward_thread = 0;  // of a backward op
    std::uint64_t flops = 0;          // 0: not known
    std::string shapes = {};          // of the inputs, "[[256, 784], [784, 128], []]"; empty: not recorded
    std::string types = {};           // of the inputs, JSON like shapes
    std::string place = {};           // where TorchScript code called it, "net.py(12): forward"
    std::string module = {};          // of TorchScript, "top(Net)::forward.conv1(Conv2d)::forward"
    std::string metadata = {};        // Kineto's own arguments, members of a JSON object; of launches and device events

    std::int64_t duration_ns() const { return end_ns - start_ns; }
};

// An allocation (bytes > 0) or release (bytes < 0).
struct MemoryEvent {
    std::string device = "cpu";  // "cpu", "cuda:0"
    std::int64_t at_ns = 0;
    std::int64_t thread = 0;
    std::int64_t bytes = 0;
    std::int64_t allocated = 0;  // in total after it. On the host only what was allocated since the profile began.
    std::int64_t reserved = 0;   // by the device's allocator
    std::uint64_t address = 0;
};

// One recorded span of the run.
struct ProfileWindow {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t first_step = 0;  // from 1, inclusive
    std::int64_t last_step = 0;
};

struct Profile {
    std::vector<ProfileEvent> events = {};
    std::vector<MemoryEvent> memory = {};  // ascending
    std::vector<WorkSpan> work = {};       // within the windows
    std::vector<RingLevel> ring = {};      // ascending
    std::vector<ProfileWindow> windows = {};
    std::int64_t training_thread = 0;
    // From the clock of `work` and `ring` to the clock of the events.
    std::int64_t steady_offset_ns = 0;
    bool full = false;  // the recording ended before its schedule: its events take as much memory as they may
    int rank = 0;
    int world_size = 1;
    std::string backend = {};  // of the ranks' communication: gloo | nccl; empty: one rank

    std::int64_t ns(std::chrono::steady_clock::time_point at) const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count() + steady_offset_ns;
    }
    std::int64_t recorded_steps() const {
        std::int64_t sum = 0;
        for (const ProfileWindow& window : windows) {
            sum += window.last_step - window.first_step + 1;
        }
        return sum;
    }
    // Recorded time in all windows.
    std::int64_t span_ns() const {
        std::int64_t sum = 0;
        for (const ProfileWindow& window : windows) {
            sum += window.end_ns - window.begin_ns;
        }
        return sum;
    }
};

}  // namespace stoker
