#include "stoker/diagnose/torch_trace/host_walk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

namespace stoker {
namespace {

enum class Work : std::uint8_t { kernel, copy_to_device, pageable_copy_to_host, other };

struct DeviceWork {
    std::int64_t ns = 0;
    std::int64_t kernels = 0;
    Work work = Work::other;
};

using WorkTable = std::unordered_map<std::int64_t, DeviceWork>;  // by correlation

// The work of the device in `window` that each launch began; a graph begins several.
WorkTable device_work(const TraceEvents& trace, const TimeRange& window) {
    WorkTable table;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.correlation < 0) {
            continue;
        }
        const std::int64_t ns = within_ns(event.time(), window);
        const std::string& name = trace.names[event.name];
        if (event.kind == EventKind::kernel) {
            DeviceWork& done = table[event.correlation];
            done.ns += ns;
            done.kernels += begins_in(event, window) ? 1 : 0;
            done.work = Work::kernel;
        } else if (event.kind == EventKind::memcpy) {
            const bool pageable = name.find("Pageable") != std::string::npos;
            const Work work = is_copy_to_device(name)             ? Work::copy_to_device
                              : is_copy_to_host(name) && pageable ? Work::pageable_copy_to_host
                                                                  : Work::other;
            DeviceWork& done = table[event.correlation];
            done.ns += ns;
            done.work = done.work == Work::kernel ? Work::kernel : work;
        } else if (event.kind == EventKind::memset || event.kind == EventKind::device_other) {
            table[event.correlation].ns += ns;
        }
    }
    return table;
}

bool is_blocking_call(std::string_view name) {
    constexpr std::array<std::string_view, 8> kNames = {
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy",
        "hipStreamSynchronize",  "hipDeviceSynchronize",  "hipEventSynchronize",  "hipMemcpyWithStream"};
    return std::ranges::find(kNames, name) != kNames.end();
}

// The place in a Python function's name, "train.py(12): main" -> "train.py:12 (main)"; empty for functions of
// libraries. The line is the function's first.
std::string place_of(std::string_view name) {
    const std::size_t bracket = name.find(".py(");
    if (bracket == std::string_view::npos || name.starts_with("torch/") || name.starts_with('<') ||
        name.find("/torch/") != std::string_view::npos || name.find("site-packages/") != std::string_view::npos ||
        name.find("lib/python3") != std::string_view::npos) {
        return {};
    }
    const std::size_t end = name.find("): ", bracket);
    if (end == std::string_view::npos) {
        return {};
    }
    return std::string(name.substr(0, bracket + 3)) + ":" + std::string(name.substr(bracket + 4, end - bracket - 4)) +
           " (" + std::string(name.substr(end + 3)) + ")";
}

class Walk {
  public:
    Walk(const TraceEvents& trace, const TimeRange& window, HostWalk& out)
        : trace_(trace), window_(window), out_(out), work_(device_work(trace, window)) {
        python_.assign(trace.names.size(), kUnknown);
    }

    void thread(const HostThread& thread, bool training) {
        training_ = training;
        ranges_only_ = std::ranges::none_of(
            thread.events, [&](std::uint32_t event) { return trace_.events[event].kind == EventKind::op; });
        python_stack_.clear();
        ops_.clear();
        walk(
            trace_, thread, [&](std::uint32_t event, const auto&) { enter(event); },
            [&](std::uint32_t event) { leave(event); });
    }

    void finish() {
        out_.operators.reserve(groups_.size());
        for (auto& [key, group] : groups_) {
            const auto& [name, shapes, types, range, place] = key;
            if (group.count == 0 && group.self_ns == 0 && group.device_ns == 0) {
                continue;  // all of it is outside of the window
            }
            out_.operators.push_back({.name = trace_.names[name],
                                      .count = group.count,
                                      .self_us = static_cast<double>(group.self_ns) / 1000,
                                      .device_us = static_cast<double>(group.device_ns) / 1000,
                                      .kernels = group.kernels,
                                      .shapes = trace_.names[shapes],
                                      .types = trace_.names[types],
                                      .range = trace_.names[range],
                                      .place = out_.places[place]});
        }
        std::ranges::sort(out_.roots, {}, [](const RootOp& root) { return root.time.start; });
        std::ranges::sort(out_.waits, {}, &TimeRange::start);
    }

  private:
    static constexpr std::uint32_t kUnknown = 0xffffffff;
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::size_t kNoRoot = std::numeric_limits<std::size_t>::max();
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    struct Group {
        std::int64_t count = 0;
        std::int64_t self_ns = 0;
        std::int64_t device_ns = 0;
        std::int64_t kernels = 0;
    };
    struct OpenOp {
        std::uint32_t event = 0;
        Group* group = nullptr;
        std::size_t root = kNoRoot;  // in out_.roots
        std::uint32_t range = 0;     // name of the innermost operator up to this one that is an optimizer's or loader's
        std::uint32_t aten = kNone;  // event of the outermost aten operator up to this one
    };

    void enter(std::uint32_t index) {
        const TraceEvent& event = trace_.events[index];
        switch (event.kind) {
            case EventKind::python: {
                const std::uint32_t place = python_place(event.name);
                python_stack_.push_back(place != 0 || python_stack_.empty() ? place : python_stack_.back());
                break;
            }
            case EventKind::annotation:
                note_range(event);
                ranges_.push_back(is_step(event) ? range() : event.name);
                break;
            case EventKind::op:
                note_range(event);
                enter_op(index, event);
                break;
            case EventKind::runtime:
                call(index, event);
                break;
            default:
                break;
        }
    }

    void leave(std::uint32_t index) {
        const TraceEvent& event = trace_.events[index];
        if (event.kind == EventKind::python) {
            python_stack_.pop_back();
        } else if (event.kind == EventKind::annotation) {
            ranges_.pop_back();
        } else if (event.kind == EventKind::op) {
            ops_.pop_back();
        }
    }

    std::uint32_t python_place(std::uint32_t name) {
        if (python_[name] == kUnknown) {
            python_[name] = out_.places.number(place_of(trace_.names[name]));
        }
        return python_[name];
    }

    std::uint32_t place() const { return python_stack_.empty() ? 0 : python_stack_.back(); }

    // The ranges that torch itself records, as annotations or (in older versions) as operators.
    void note_range(const TraceEvent& event) {
        const std::string& name = trace_.names[event.name];
        const TimeRange time = event.time();
        if (name.starts_with("autograd::engine::evaluate_function")) {
            out_.backward.push_back(time);
        } else if (name.starts_with("gloo:") || name.starts_with("nccl:") || name.starts_with("c10d::")) {
            out_.collectives.push_back(time);
        }
        if (!training_ && !ranges_only_) {  // the training thread's ranges may have a separate thread
            return;
        }
        if (name.starts_with("enumerate(DataLoader)#")) {
            out_.waits.push_back(time);
            out_.single_process_loader =
                out_.single_process_loader || name.find("_SingleProcessDataLoaderIter") != std::string::npos;
        } else if (name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#")) {
            out_.optimizer.push_back(time);
        }
    }

    bool is_step(const TraceEvent& event) const { return trace_.names[event.name].starts_with("ProfilerStep#"); }

    std::uint32_t range() const { return ranges_.empty() ? 0 : ranges_.back(); }

    // An old trace has the loader's and the optimizer's ranges as operators; they call, but compute nothing.
    static bool is_range(const std::string& name) {
        return name.starts_with("enumerate(DataLoader)#") || name.starts_with("Optimizer.") ||
               name.starts_with("ProfilerStep#") || name.starts_with("DataParallel.") ||
               name.starts_with("DistributedDataParallel.");
    }

    void enter_op(std::uint32_t index, const TraceEvent& event) {
        const std::string& name = trace_.names[event.name];
        const bool is_named_range = is_range(name);
        Group& group = groups_[{event.name, event.shapes, event.types, is_named_range ? 0 : range_around(), place()}];
        group.count += begins_in(event, window_) ? 1 : 0;
        group.self_ns += within_ns(event.time(), window_);
        if (!ops_.empty()) {
            const TraceEvent& outer = trace_.events[ops_.back().event];
            const TimeRange shared{event.start_ns, std::min(event.end_ns(), outer.end_ns())};
            ops_.back().group->self_ns -= within_ns(shared, window_);
        }
        OpenOp open = ops_.empty() ? OpenOp{} : ops_.back();
        const bool purpose = name.starts_with("Optimizer.") || name.starts_with("enumerate(DataLoader)#");
        open = {.event = index,
                .group = &group,
                .range = purpose ? event.name : open.range,
                .aten = open.aten == kNone && name.starts_with("aten::") ? index : open.aten};
        if (training_ && !is_named_range) {
            if (!ops_.empty() && ops_.back().root != kNoRoot) {
                open.root = ops_.back().root;
            } else {
                open.root = out_.roots.size();
                out_.roots.push_back({.event = index,
                                      .time = {event.start_ns, event.end_ns()},
                                      .place = place(),
                                      .backward = name.starts_with("autograd::engine::")});
            }
        }
        ops_.push_back(open);
    }

    // The innermost range, which may be an operator's.
    std::uint32_t range_around() const { return !ops_.empty() && ops_.back().range != 0 ? ops_.back().range : range(); }

    void call(std::uint32_t index, const TraceEvent& event) {
        const auto found = event.correlation < 0 ? work_.end() : work_.find(event.correlation);
        const bool launches = found != work_.end();
        RootOp* root = !ops_.empty() && ops_.back().root != kNoRoot ? &out_.roots[ops_.back().root] : nullptr;
        if (launches) {
            out_.launches[event.correlation] = {event.start_ns, event.end_ns()};
            note_launch(found->second, root);
        }
        const bool waits_for_copy = launches && found->second.work == Work::pageable_copy_to_host;
        if (waits_for_copy || is_blocking_call(trace_.names[event.name])) {
            const std::uint32_t around = ops_.empty() ? index : ops_.front().event;
            out_.blocking.push_back({.time = {event.start_ns, event.end_ns()},
                                     .name = trace_.events[ops_.empty() ? index : outermost_aten()].name,
                                     .place = place(),
                                     .root = around,
                                     .training = training_,
                                     .copies_to_device = (root != nullptr && root->copies_to_device) ||
                                                         (launches && found->second.work == Work::copy_to_device)});
        }
    }

    std::uint32_t outermost_aten() const { return ops_.back().aten != kNone ? ops_.back().aten : ops_.front().event; }

    void note_launch(const DeviceWork& work, RootOp* root) {
        if (!ops_.empty()) {
            ops_.back().group->device_ns += work.ns;
            ops_.back().group->kernels += work.kernels;
        }
        if (root != nullptr) {
            root->copies_to_device = root->copies_to_device || work.work == Work::copy_to_device;
            root->launches_kernels = root->launches_kernels || work.work == Work::kernel;
            if (trace_.names[trace_.events[ops_.back().event].name] == "aten::add_") {
                root->bias_us += static_cast<double>(work.ns) / 1000;
            }
        }
    }

    const TraceEvents& trace_;
    TimeRange window_;
    HostWalk& out_;
    WorkTable work_;
    std::map<Key, Group> groups_ = {};
    std::vector<std::uint32_t> python_;  // of a name: its place; kUnknown: not looked at yet
    std::vector<std::uint32_t> python_stack_ = {};
    std::vector<std::uint32_t> ranges_ = {};  // open annotations: the name, of a step that of the range around it
    std::vector<OpenOp> ops_ = {};
    bool training_ = false;
    bool ranges_only_ = false;  // this thread lacks operators
};

}  // namespace

HostWalk walk_host(const TraceEvents& trace, const std::vector<HostThread>& threads, std::size_t training,
                   const TimeRange& window) {
    HostWalk out;
    Walk pass(trace, window, out);
    for (std::size_t i = 0; i < threads.size(); ++i) {
        pass.thread(threads[i], i == training);
    }
    pass.finish();
    return out;
}

}  // namespace stoker
