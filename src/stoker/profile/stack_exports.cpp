#include "stoker/profile/stack_exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

void collapse(const StackSum& sum, const std::string& above, std::string& out) {
    const std::string stack = above.empty() ? sum.name : above + ";" + sum.name;
    if (const std::int64_t us = (sum.self_ns + 500) / 1000; us > 0) {
        out += fmt::format("{} {}\n", stack, us);
    }
    for (const StackSum& child : sum.children) {
        collapse(child, stack, out);
    }
}

class SpeedscopeFrames {
  public:
    std::size_t index(const std::string& name) {
        const auto [found, added] = index_.try_emplace(name, frames_.size());
        if (added) {
            frames_.push_back({{"name", name}});
        }
        return found->second;
    }
    nlohmann::ordered_json take() { return std::move(frames_); }

  private:
    std::unordered_map<std::string, std::size_t> index_;
    nlohmann::ordered_json frames_ = nlohmann::ordered_json::array();
};

// Opens and closes, in the order of time. `frames` lists outer frames before inner ones, and siblings by time.
nlohmann::ordered_json speedscope_events(const std::vector<StackFrame>& frames, std::int64_t zero,
                                         SpeedscopeFrames& names) {
    auto events = nlohmann::ordered_json::array();
    std::vector<const StackFrame*> open;
    std::int64_t now = std::numeric_limits<std::int64_t>::min();  // a frame never begins before the last event
    const auto add = [&](const char* type, const StackFrame& frame, std::int64_t at) {
        now = std::max(now, at);
        events.push_back(
            {{"type", type}, {"frame", names.index(frame.name)}, {"at", static_cast<double>(now - zero) / 1e3}});
    };
    const auto close_until = [&](std::int64_t depth) {
        while (std::ssize(open) > depth) {
            add("C", *open.back(), open.back()->end_ns);
            open.pop_back();
        }
    };
    std::vector<std::int64_t> depth_of;
    for (const StackFrame& frame : frames) {
        const std::int64_t depth =
            frame.parent == EventNode::kNone ? 0 : depth_of[static_cast<std::size_t>(frame.parent)] + 1;
        close_until(depth);
        add("O", frame, frame.start_ns);
        open.push_back(&frame);
        depth_of.push_back(depth);
    }
    close_until(0);
    return events;
}

// Python's marshal format, version 2: the part that a dictionary of tuples needs.
class MarshalWriter {
  public:
    void begin_dict() { out_ += '{'; }
    void end_dict() { out_ += '0'; }
    void tuple(std::uint32_t size) {
        out_ += '(';
        number(size);
    }
    void text(const std::string& value) {
        out_ += 'u';
        number(static_cast<std::uint32_t>(value.size()));
        out_ += value;
    }
    void real(double value) {
        out_ += 'g';
        bytes(std::bit_cast<std::uint64_t>(value), 8);
    }
    void integer(std::int64_t value) {
        if (value <= std::numeric_limits<std::int32_t>::max()) {
            out_ += 'i';
            number(static_cast<std::uint32_t>(value));
        } else {
            out_ += 'I';
            bytes(static_cast<std::uint64_t>(value), 8);
        }
    }
    std::string take() { return std::move(out_); }

  private:
    void number(std::uint32_t value) { bytes(value, 4); }
    void bytes(std::uint64_t value, int count) {  // little-endian
        for (int i = 0; i < count; ++i) {
            out_ += static_cast<char>(value >> (8 * i) & 0xFF);
        }
    }

    std::string out_;
};

struct FunctionTimes {
    std::int64_t calls = 0;
    std::int64_t primitive = 0;  // calls that are not within one of the same name
    std::int64_t own_ns = 0;
    std::int64_t total_ns = 0;  // a call within one of the same name adds nothing
    std::map<std::string, FunctionTimes> callers = {};
};

void add_function(const StackSum& sum, std::vector<std::string>& above, std::map<std::string, FunctionTimes>& all) {
    const bool recursive = std::ranges::find(above, sum.name) != above.end();
    const auto add = [&](FunctionTimes& times) {
        times.calls += sum.count;
        times.primitive += recursive ? 0 : sum.count;
        times.own_ns += sum.self_ns;
        times.total_ns += recursive ? 0 : sum.total_ns;
    };
    FunctionTimes& function = all[sum.name];
    add(function);
    if (!above.empty()) {
        add(function.callers[above.back()]);
    }
    above.push_back(sum.name);
    for (const StackSum& child : sum.children) {
        add_function(child, above, all);
    }
    above.pop_back();
}

void write_key(MarshalWriter& out, const std::string& name) {
    out.tuple(3);
    out.text("~");
    out.integer(0);
    out.text(name);
}

// Python's pstats has the primitive calls of a function first, and of a caller all calls.
void write_times(MarshalWriter& out, const FunctionTimes& times, bool of_caller) {
    out.integer(of_caller ? times.calls : times.primitive);
    out.integer(of_caller ? times.primitive : times.calls);
    out.real(static_cast<double>(times.own_ns) / 1e9);
    out.real(static_cast<double>(times.total_ns) / 1e9);
}

}  // namespace

std::string collapsed_stacks(std::span<const ThreadStacks> threads) {
    std::string out;
    for (const ThreadStacks& thread : threads) {
        collapse(sum_stacks(thread), "", out);
    }
    return out;
}

std::string speedscope_json(std::span<const ThreadStacks> threads, const std::string& name) {
    std::int64_t zero = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
    for (const ThreadStacks& thread : threads) {
        for (const StackFrame& frame : thread.frames) {
            zero = std::min(zero, frame.start_ns);
            end = std::max(end, frame.end_ns);
        }
    }
    SpeedscopeFrames frames;
    auto profiles = nlohmann::ordered_json::array();
    for (const ThreadStacks& thread : threads) {
        profiles.push_back({{"type", "evented"},
                            {"name", thread.thread},
                            {"unit", "microseconds"},
                            {"startValue", 0},
                            {"endValue", static_cast<double>(std::max(end - zero, std::int64_t{0})) / 1e3},
                            {"events", speedscope_events(thread.frames, zero, frames)}});
    }
    const nlohmann::ordered_json json = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                                         {"name", name},
                                         {"exporter", "stoker"},
                                         {"activeProfileIndex", 0},
                                         {"shared", {{"frames", frames.take()}}},
                                         {"profiles", profiles}};
    return json_text(json);
}

std::string pstats_file(std::span<const ThreadStacks> threads) {
    std::map<std::string, FunctionTimes> functions;
    for (const ThreadStacks& thread : threads) {
        std::vector<std::string> above;
        add_function(sum_stacks(thread), above, functions);
    }
    MarshalWriter out;
    out.begin_dict();
    for (const auto& [name, times] : functions) {
        write_key(out, name);
        out.tuple(5);
        write_times(out, times, /*of_caller=*/false);
        out.begin_dict();
        for (const auto& [caller, share] : times.callers) {
            write_key(out, caller);
            out.tuple(4);
            write_times(out, share, /*of_caller=*/true);
        }
        out.end_dict();
    }
    out.end_dict();
    return out.take();
}

}  // namespace stoker
