#include "stoker/profile/chrome_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "stoker/base/json_depth.h"
#include "stoker/profile/trace_lanes.h"
#include "stoker/records/records.h"

namespace stoker {
namespace {

// Thread numbers of rows that are not threads, above the largest number of a process (4,194,304).
constexpr std::int64_t kRanges = 10'000'000;   // plus the thread
constexpr std::int64_t kWorkers = 20'000'000;  // plus the worker

std::string json_string(std::string_view text) {
    return json_text(nlohmann::json(text));
}

std::string_view category_of(ProfiledKind kind) {
    switch (kind) {
        case ProfiledKind::op:
            return "cpu_op";
        case ProfiledKind::range:
            return "user_annotation";
        case ProfiledKind::runtime:
            return "cuda_runtime";
        case ProfiledKind::kernel:
            return "kernel";
        case ProfiledKind::copy:
            return "gpu_memcpy";
        case ProfiledKind::fill:
            return "gpu_memset";
        case ProfiledKind::gpu_range:
            return "gpu_user_annotation";
        case ProfiledKind::sync:
            return "cuda_sync";
        case ProfiledKind::overhead:
            break;
    }
    return "overhead";
}

// The arguments as members of a JSON object, by torch.profiler's names.
std::string arguments_of(const ProfileEvent& event) {
    std::vector<std::string> members;
    const auto add = [&](std::string_view name, const std::string& json) {
        members.push_back(fmt::format("\"{}\": {}", name, json));
    };
    if (on_device(event.kind) || event.kind == ProfiledKind::runtime) {
        // Kineto's own arguments have the same names and more.
        const bool whole = !event.metadata.empty() && nlohmann::json::accept(fmt::format("{{{}}}", event.metadata));
        if (whole && event.metadata.find("\"correlation\"") != std::string::npos) {
            return event.metadata;
        }
        add("External id", fmt::to_string(event.op));
        add("correlation", fmt::to_string(event.id));
        if (on_device(event.kind)) {
            add("device", fmt::to_string(event.device));
            add("stream", fmt::to_string(event.thread));
        }
        if (whole) {
            members.push_back(event.metadata);
        }
        return fmt::format("{}", fmt::join(members, ", "));
    }
    add("External id", fmt::to_string(event.id));
    if (event.sequence >= 0) {
        add("Sequence number", fmt::to_string(event.sequence));
        add("Fwd thread id", fmt::to_string(event.forward_thread));
    }
    if (!event.shapes.empty()) {
        add("Input Dims", event.shapes);
    }
    if (!event.types.empty()) {
        add("Input type", event.types);
    }
    if (event.flops > 0) {
        add("flops", fmt::to_string(event.flops));
    }
    if (!event.place.empty()) {
        add("Call stack", json_string(event.place));
    }
    if (!event.module.empty()) {
        add("Module Hierarchy", json_string(event.module));
    }
    return fmt::format("{}", fmt::join(members, ", "));
}

class TraceWriter {
  public:
    explicit TraceWriter(const Profile& profile)
        : profile_(profile), process_(getpid()), base_ns_(profile.windows.empty() ? 0 : first_start(profile)) {}

    std::string text(const DeviceFacts& device) {
        text_ = header(device);
        events();
        flows();
        work();
        memory();
        names();
        return std::move(text_) + "\n]}\n";
    }

  private:
    static std::int64_t first_start(const Profile& profile) {
        std::int64_t first = profile.windows.front().begin_ns;
        for (const ProfileEvent& event : profile.events) {
            first = std::min(first, event.start_ns);
        }
        for (const WorkSpan& span : profile.work) {
            first = std::min(first, profile.ns(span.began));
        }
        return first;
    }

    // A process trains on one device.
    std::int64_t device_index() const {
        const auto found =
            std::ranges::find_if(profile_.events, [](const ProfileEvent& event) { return on_device(event.kind); });
        return found == profile_.events.end() ? 0 : found->device;
    }

    // HolisticTraceAnalysis finds the rank by a regular expression with a space after the colon.
    std::string header(const DeviceFacts& device) const {
        const std::string properties =
            device.type == "cuda"
                ? fmt::format("{{\"id\": {}, \"name\": {}, \"totalGlobalMem\": {}{}}}", device_index(),
                              json_string(device.name), device.memory_bytes.value_or(0),
                              device.compute_major ? fmt::format(", \"computeMajor\": {}", *device.compute_major) : "")
                : "";
        const std::string backend =
            profile_.backend.empty() ? "" : fmt::format("\"backend\": {}, ", json_string(profile_.backend));
        return fmt::format(
            "{{\n\"schemaVersion\": 1,\n\"writer\": \"{}\",\n\"deviceProperties\": [{}],\n"
            "\"distributedInfo\": {{{}\"rank\": {}, \"world_size\": {}}},\n"
            "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {},\n\"traceEvents\": [",
            kOwnWriter, properties, backend, profile_.rank, profile_.world_size, base_ns_);
    }

    double us(std::int64_t ns) const { return static_cast<double>(ns - base_ns_) / 1e3; }

    void line(const std::string& event) {
        text_ += first_ ? "\n" : ",\n";
        text_ += event;
        first_ = false;
    }

    // Returns the thread number under which the slice was written.
    std::int64_t slice(std::string_view category, const std::string& name, std::int64_t process, std::int64_t thread,
                       std::int64_t start, std::int64_t end, const std::string& arguments) {
        const std::int64_t number = lanes_.place(process, thread, start, end);
        line(
            fmt::format("{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, "
                        "\"dur\": {:.3f}, \"args\": {{{}}}}}",
                        category, json_string(name), process, number, us(start), static_cast<double>(end - start) / 1e3,
                        arguments));
        return number;
    }

    // GPUs are processes with their numbers, as in Kineto's traces.
    std::pair<std::int64_t, std::int64_t> place_of(const ProfileEvent& event) const {
        if (on_device(event.kind)) {
            return {event.device, event.thread + (event.kind == ProfiledKind::gpu_range ? kRanges : 0)};
        }
        return {process_, event.thread + (event.kind == ProfiledKind::range ? kRanges : 0)};
    }

    void events() {
        std::vector<std::size_t> order(profile_.events.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            order[i] = i;
        }
        std::ranges::stable_sort(order, {}, [&](std::size_t i) {
            const ProfileEvent& event = profile_.events[i];
            return std::tuple(event.start_ns, -event.end_ns);
        });
        numbers_.resize(profile_.events.size());
        std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> open;  // ends of outer slices
        for (const std::size_t i : order) {
            const ProfileEvent& event = profile_.events[i];
            const auto [process, thread] = place_of(event);
            std::int64_t end = event.end_ns;
            if (event.kind == ProfiledKind::op) {  // rounding: an op ends with its caller at the latest
                std::vector<std::int64_t>& ends = open[{process, thread}];
                while (!ends.empty() && ends.back() <= event.start_ns) {
                    ends.pop_back();
                }
                end = ends.empty() ? end : std::min(end, ends.back());
                ends.push_back(end);
            }
            numbers_[i] =
                slice(category_of(event.kind), event.name, process, thread, event.start_ns, end, arguments_of(event));
            lanes_used_[{process, numbers_[i]}] = event.kind;
        }
    }

    void flow(std::string_view category, std::uint64_t id, std::size_t from, std::size_t to) {
        const auto end = [&](std::string_view phase, std::size_t i, std::string_view binding) {
            const ProfileEvent& event = profile_.events[i];
            line(fmt::format(
                "{{\"ph\": \"{}\", \"id\": {}, \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, "
                "\"tid\": {}, \"ts\": {:.3f}{}}}",
                phase, id, category, category, place_of(event).first, numbers_[i], us(event.start_ns), binding));
        };
        end("s", from, "");
        end("f", to, ", \"bp\": \"e\"");
    }

    // From a launch to its kernel, and from an op to its backward.
    void flows() {
        std::unordered_map<std::uint64_t, std::size_t> launches;
        std::unordered_map<std::int64_t, std::size_t> forwards;  // sequence -> innermost op
        for (std::size_t i = 0; i < profile_.events.size(); ++i) {
            const ProfileEvent& event = profile_.events[i];
            if (event.kind == ProfiledKind::runtime && event.id != 0) {
                launches.emplace(event.id, i);
            } else if (event.kind == ProfiledKind::op && event.sequence >= 0 && event.forward_thread == 0) {
                forwards.insert_or_assign(event.sequence, i);
            }
        }
        std::uint64_t next = 0;
        for (std::size_t i = 0; i < profile_.events.size(); ++i) {
            const ProfileEvent& event = profile_.events[i];
            if (on_device(event.kind) && event.kind != ProfiledKind::gpu_range) {
                if (const auto launch = launches.find(event.id); launch != launches.end()) {
                    flow("ac2g", ++next, launch->second, i);
                }
            } else if (event.kind == ProfiledKind::op && event.sequence >= 0 && event.forward_thread != 0) {
                const auto forward = forwards.find(event.sequence);
                if (forward != forwards.end() && profile_.events[forward->second].end_ns <= event.start_ns) {
                    flow("fwdbwd", ++next, forward->second, i);
                    forwards.erase(forward);  // the backward's own inner ops have the same number
                }
            }
        }
    }

    // The stages of a piece of work lie end to end: their lengths are measured, their order within the piece is not,
    // since a thread goes through all stages for each sample.
    void work() {
        for (const WorkSpan& span : profile_.work) {
            const std::int64_t thread = kWorkers + span.worker;
            const std::int64_t start = profile_.ns(span.began);
            const std::int64_t end = profile_.ns(span.ended);
            worker_threads_[thread] = span.worker;
            slice("loader", fmt::format("batch {}", span.batch), process_, thread, start, end,
                  fmt::format("\"items\": {}, \"from\": {}", span.end - span.begin, span.begin));
            std::int64_t at = start;
            for (std::size_t i = 0; i < kStages; ++i) {
                const auto stage = static_cast<Stage>(i);
                const std::int64_t stop = std::min(at + span.times[stage].count(), end);
                if (stage != Stage::blocked && stop > at) {
                    slice("loader", std::string(stage_name(stage)), process_, thread, at, stop, "");
                    at = stop;
                }
            }
        }
        for (const RingLevel& level : profile_.ring) {
            line(
                fmt::format("{{\"ph\": \"C\", \"name\": \"batches ready\", \"pid\": {}, \"ts\": {:.3f}, \"args\": "
                            "{{\"batches\": {}}}}}",
                            process_, us(profile_.ns(level.at)), level.ready));
        }
    }

    void memory() {
        for (const MemoryEvent& change : profile_.memory) {
            const bool host = change.device == "cpu";
            const std::size_t colon = change.device.find(':');
            line(fmt::format(
                "{{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": {}, "
                "\"tid\": {}, \"ts\": {:.3f}, \"args\": {{\"Total Reserved\": {}, \"Total Allocated\": {}, "
                "\"Bytes\": {}, \"Addr\": {}, \"Device Id\": {}, \"Device Type\": {}}}}}",
                process_, change.thread, us(change.at_ns), change.reserved, change.allocated, change.bytes,
                change.address, host || colon == std::string::npos ? "-1" : change.device.substr(colon + 1),
                host ? 0 : 1));
        }
    }

    void name(std::string_view what, std::int64_t process, std::int64_t thread, const std::string& value) {
        line(fmt::format("{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": 0, \"args\": {{{}}}}}",
                         what, process, thread, value));
    }

    void thread(std::int64_t process, std::int64_t number, const std::string& title, int order) {
        name("thread_name", process, number, "\"name\": " + json_string(title));
        name("thread_sort_index", process, number, fmt::format("\"sort_index\": {}", order));
    }

    void names() {
        name("process_name", process_, 0, "\"name\": \"stoker\"");
        name("process_labels", process_, 0, "\"labels\": \"CPU\"");
        std::map<std::int64_t, bool> devices;
        for (const auto& [place, kind] : lanes_used_) {
            const auto [process, number] = place;
            if (process != process_) {
                devices[process] = true;
                thread(process, number,
                       fmt::format("stream {}{}", number % kRanges,
                                   number % TraceLanes::kLane >= kRanges ? " ranges" : ""),
                       static_cast<int>(number % kRanges));
                continue;
            }
            const std::int64_t host = number % kRanges;
            const std::string who =
                host == profile_.training_thread ? "training thread" : fmt::format("thread {}", host);
            thread(process, number, kind == ProfiledKind::range ? who + ": ranges" : who,
                   host == profile_.training_thread ? 1 : 2);
        }
        for (const auto& [device, used] : devices) {
            name("process_name", device, 0, "\"name\": \"stoker\"");
            name("process_labels", device, 0, fmt::format("\"labels\": \"GPU {}\"", device));
        }
        for (const auto& [number, worker] : worker_threads_) {
            thread(process_, number,
                   worker == WorkSpan::kTrainingThread ? "loader (training thread)" : fmt::format("worker {}", worker),
                   10 + worker);
        }
    }

    const Profile& profile_;
    const std::int64_t process_;
    const std::int64_t base_ns_;
    std::string text_;
    bool first_ = true;
    TraceLanes lanes_;
    std::vector<std::int64_t> numbers_;  // of the slices, by event
    std::map<std::pair<std::int64_t, std::int64_t>, ProfiledKind> lanes_used_;
    std::map<std::int64_t, int> worker_threads_;
};

}  // namespace

std::string chrome_trace(const Profile& profile, const DeviceFacts& device) {
    return TraceWriter(profile).text(device);
}

std::string trace_file_name(const Profile& profile) {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return fmt::format("{}_{}.{}.pt.trace.json.gz", host.data(), getpid(),
                       profile.windows.empty() ? 0 : profile.windows.front().begin_ns);
}

}  // namespace stoker
