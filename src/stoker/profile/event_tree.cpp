#include "stoker/profile/event_tree.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace stoker {
namespace {

// The events of the host that nest, sorted so that a caller comes before what it calls.
std::vector<EventNode> host_nodes(std::span<const ProfileEvent> events) {
    std::vector<EventNode> nodes;
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (events[i].kind == ProfiledKind::op || events[i].kind == ProfiledKind::range) {
            nodes.push_back({.event = i, .self_ns = events[i].duration_ns()});
        }
    }
    // A range that begins with its op is the outer one.
    std::ranges::stable_sort(nodes, {}, [&](const EventNode& node) {
        const ProfileEvent& event = events[node.event];
        return std::tuple(event.thread, event.start_ns, -event.end_ns, event.kind == ProfiledKind::op);
    });
    return nodes;
}

void set_parents(std::span<const ProfileEvent> events, std::vector<EventNode>& nodes) {
    std::vector<std::int64_t> open;  // callers of the node at hand, outermost first
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const ProfileEvent& event = events[nodes[i].event];
        while (!open.empty()) {
            const ProfileEvent& caller = events[nodes[static_cast<std::size_t>(open.back())].event];
            if (caller.thread == event.thread && caller.end_ns > event.start_ns) {
                break;
            }
            open.pop_back();
        }
        if (!open.empty()) {
            EventNode& caller = nodes[static_cast<std::size_t>(open.back())];
            nodes[i].parent = open.back();
            caller.self_ns -= std::min(event.end_ns, events[caller.event].end_ns) - event.start_ns;
        }
        open.push_back(static_cast<std::int64_t>(i));
    }
}

void add_device_times(std::span<const ProfileEvent> events, std::vector<EventNode>& nodes) {
    std::unordered_map<std::uint64_t, EventNode*> by_id;
    for (EventNode& node : nodes) {
        by_id.emplace(events[node.event].id, &node);
    }
    for (const ProfileEvent& event : events) {
        const bool works =
            event.kind == ProfiledKind::kernel || event.kind == ProfiledKind::copy || event.kind == ProfiledKind::fill;
        if (const auto found = by_id.find(event.op); works && event.op != 0 && found != by_id.end()) {
            found->second->device_ns += event.duration_ns();
        }
    }
}

// Each allocation belongs to the innermost node of its thread at its time.
void add_memory(const Profile& profile, std::vector<EventNode>& nodes) {
    const auto order = [&](const EventNode& node) {
        const ProfileEvent& event = profile.events[node.event];
        return std::pair(event.thread, event.start_ns);
    };
    for (const MemoryEvent& change : profile.memory) {
        const auto after = std::ranges::upper_bound(nodes, std::pair(change.thread, change.at_ns), {}, order);
        auto at = static_cast<std::int64_t>(after - nodes.begin()) - 1;
        while (at != EventNode::kNone) {
            EventNode& node = nodes[static_cast<std::size_t>(at)];
            const ProfileEvent& event = profile.events[node.event];
            if (event.thread != change.thread) {
                break;
            }
            if (event.end_ns > change.at_ns) {
                node.self_bytes += change.bytes;
                break;
            }
            at = node.parent;
        }
    }
}

}  // namespace

std::vector<EventNode> event_tree(const Profile& profile) {
    std::vector<EventNode> nodes = host_nodes(profile.events);
    set_parents(profile.events, nodes);
    add_device_times(profile.events, nodes);
    add_memory(profile, nodes);
    return nodes;
}

}  // namespace stoker
