// The call stacks of a profile: the nested calls of each thread, with the time of each frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/profile.h"

namespace stoker {

// A frame from `start_ns` to `end_ns`, and the frames within it.
struct StackFrame {
    std::string name = {};
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t parent = EventNode::kNone;  // index of the frame around it, which comes before
};

struct ThreadStacks {
    std::string thread = {};              // "training thread", "worker 2"
    std::vector<StackFrame> frames = {};  // in the order of their starts, outer frames first
};

// The names of the frames around and with node `node`, outermost first, joined by ';'. Steps are left out, so that the
// same work in two steps has one stack. A ';' in a name becomes ':'.
std::string stack_of(const Profile& profile, std::span<const EventNode> nodes, std::size_t node);

// The training thread, other threads that ran ops, and the loader's threads. Each piece of a worker's batch is a frame
// with its stages. Frames lie within the frame around them; steps are left out.
std::vector<ThreadStacks> thread_stacks(const Profile& profile, std::span<const EventNode> nodes);

// A frame with all that it called, summed over all its calls from the same stack.
struct StackSum {
    std::string name = {};
    std::int64_t count = 0;
    std::int64_t total_ns = 0;
    std::int64_t self_ns = 0;
    std::vector<StackSum> children = {};  // in the order of their first call
};
// The root is the thread.
StackSum sum_stacks(const ThreadStacks& stacks);

}  // namespace stoker
