// The nesting of a profile's host events: the calls on each thread, and the time that each call spent itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/profile/profile.h"

namespace stoker {

struct EventNode {
    static constexpr std::int64_t kNone = -1;

    std::size_t event = 0;        // its index in Profile::events
    std::int64_t parent = kNone;  // index of the node that called it
    std::int64_t self_ns = 0;     // without the nodes that it called
    std::int64_t device_ns = 0;   // of the kernels, copies and fills that it launched itself
    std::int64_t self_bytes = 0;  // allocated less released while it ran and none of its children did
};

// Ops and ranges by thread, callers before what they call, each thread's in the order of time. Kineto's clock has a
// granularity of some nanoseconds: a child that ends after its parent ends with it.
std::vector<EventNode> event_tree(const Profile& profile);

}  // namespace stoker
