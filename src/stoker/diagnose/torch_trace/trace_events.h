// The events of one trace file, as small as millions of them must be: names and threads are numbers, times are integer
// nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stoker {

enum class EventKind : std::uint8_t {
    op,          // cpu_op
    annotation,  // user_annotation
    runtime,     // cuda_runtime, cuda_driver
    kernel,
    memcpy,
    memset,
    device_other,       // further work of an accelerator that HTA counts as kernels
    device_annotation,  // gpu_user_annotation
    python,
    other,
};

struct TimeRange {
    std::int64_t start = 0;  // ns
    std::int64_t end = 0;
};

struct TraceEvent {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    std::int64_t correlation = -1;  // of a launch and its kernel; -1: none
    std::int64_t bytes = 0;         // of a copy
    std::int64_t stream = -1;       // -1: none
    std::uint32_t name = 0;         // in TraceEvents::names
    std::uint32_t thread = 0;       // in TraceEvents::threads
    std::uint32_t shapes = 0;       // of an operator's inputs, in TraceEvents::names; 0: not recorded
    std::uint32_t types = 0;
    std::int16_t device = -1;
    EventKind kind = EventKind::other;

    std::int64_t end_ns() const { return start_ns + duration_ns; }
    TimeRange time() const { return {start_ns, end_ns()}; }
};

// The part of `time` in `window`, in ns.
inline std::int64_t within_ns(const TimeRange& time, const TimeRange& window) {
    return std::max<std::int64_t>(0, std::min(time.end, window.end) - std::max(time.start, window.start));
}

inline bool begins_in(const TraceEvent& event, const TimeRange& window) {
    return event.start_ns >= window.start && event.start_ns < window.end;
}

// Work of an accelerator: kernels, copies, fills.
inline bool is_device_work(EventKind kind) {
    return kind == EventKind::kernel || kind == EventKind::memcpy || kind == EventKind::memset ||
           kind == EventKind::device_other;
}

// Texts as numbers. 0 is the empty text. Texts beyond kMost, or beyond kMostBytes of all, have one number, so that
// names such as "batch 17" take a bounded memory.
class TextTable {
  public:
    static constexpr std::size_t kMost = std::size_t{1} << 18;
    static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

    TextTable() { number(""); }
    TextTable(TextTable&&) noexcept = default;  // a copy's keys would point into the original
    TextTable& operator=(TextTable&&) noexcept = default;
    std::uint32_t number(std::string_view text);
    std::optional<std::uint32_t> find(std::string_view text) const;
    const std::string& operator[](std::uint32_t number) const { return texts_[number]; }
    std::size_t size() const { return texts_.size(); }
    bool is_full() const { return others_.has_value(); }

  private:
    std::uint32_t add(std::string_view text);

    std::deque<std::string> texts_;  // never moved, so that the map's keys stay valid
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
    std::size_t bytes_ = 0;
    std::optional<std::uint32_t> others_ = {};
};

// A vector that grows in blocks: growing copies nothing.
class EventList {
  public:
    EventList() = default;
    EventList(EventList&&) = default;
    EventList& operator=(EventList&&) = default;
    void push_back(const TraceEvent& event);
    std::size_t size() const { return size_; }
    const TraceEvent& operator[](std::size_t i) const { return blocks_[i / kBlock][i % kBlock]; }
    TraceEvent& operator[](std::size_t i) { return blocks_[i / kBlock][i % kBlock]; }

  private:
    static constexpr std::size_t kBlock = std::size_t{1} << 12;
    std::vector<std::unique_ptr<TraceEvent[]>> blocks_;
    std::size_t size_ = 0;
};

// The direction in a copy's name, as CUDA and ROCm ("Memcpy HtoD (Pageable -> Device)") or XPU ("Memcpy M2D", of pinned
// memory "H2D") have it.
bool is_copy_to_device(std::string_view name);
bool is_copy_to_host(std::string_view name);

struct TraceDevice {
    std::string name = {};
    std::optional<std::int64_t> memory_bytes = {};
    std::optional<int> compute_major = {};
};

struct TraceEvents {
    EventList events = {};  // those with a duration, in the file's order
    TextTable names = {};
    TextTable threads = {};  // "pid tid"
    std::optional<int> rank = {};
    std::optional<int> world_size = {};
    std::string writer = {};   // "stoker"; empty: torch.profiler
    std::string backend = {};  // of torch.distributed
    std::vector<TraceDevice> devices = {};
    std::int64_t read = 0;                               // events of all kinds
    bool fractional = false;                             // some event begins at a fraction of a microsecond
    std::optional<std::int64_t> peak_device_bytes = {};  // allocated on a GPU, with profile_memory
    std::map<std::string, std::int64_t> unknown = {};    // events with a duration, by a category that is not known
    std::vector<std::string> problems = {};
};

}  // namespace stoker
