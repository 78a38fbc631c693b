#include "stoker/profile/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace stoker {
namespace {

bool is_step(const ProfileEvent& event) {
    return event.kind == ProfiledKind::range && event.name.starts_with("ProfilerStep#");
}

std::string frame_name(std::string name) {
    std::ranges::replace(name, ';', ':');
    return name;
}

std::vector<ThreadStacks> host_stacks(const Profile& profile, std::span<const EventNode> nodes) {
    std::vector<ThreadStacks> threads;
    std::map<std::int64_t, std::size_t> index;
    std::vector<std::int64_t> frame_of(nodes.size(), EventNode::kNone);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const ProfileEvent& event = profile.events[nodes[i].event];
        const std::int64_t outer = nodes[i].parent == EventNode::kNone
                                       ? EventNode::kNone
                                       : frame_of[static_cast<std::size_t>(nodes[i].parent)];
        if (is_step(event)) {
            frame_of[i] = outer;
            continue;
        }
        const auto [found, added] = index.try_emplace(event.thread, threads.size());
        if (added) {
            threads.push_back({.thread = event.thread == profile.training_thread
                                             ? "training thread"
                                             : fmt::format("thread {}", event.thread)});
        }
        std::vector<StackFrame>& frames = threads[found->second].frames;
        const std::int64_t end = outer == EventNode::kNone
                                     ? event.end_ns
                                     : std::min(event.end_ns, frames[static_cast<std::size_t>(outer)].end_ns);
        frame_of[i] = std::ssize(frames);
        frames.push_back({.name = frame_name(event.name), .start_ns = event.start_ns, .end_ns = end, .parent = outer});
    }
    std::stable_partition(threads.begin(), threads.end(),
                          [](const ThreadStacks& t) { return t.thread == "training thread"; });
    return threads;
}

void add_work(const Profile& profile, std::vector<ThreadStacks>& threads) {
    std::map<int, ThreadStacks> workers;
    for (const WorkSpan& span : profile.work) {
        ThreadStacks& worker = workers[span.worker];
        worker.thread = span.worker == WorkSpan::kTrainingThread ? "loader (training thread)"
                                                                 : fmt::format("worker {}", span.worker);
        const std::int64_t outer = std::ssize(worker.frames);
        const std::int64_t end = profile.ns(span.ended);
        std::int64_t at = profile.ns(span.began);
        worker.frames.push_back({.name = "batch", .start_ns = at, .end_ns = end});
        for (std::size_t i = 0; i < kStages; ++i) {
            const std::int64_t stop = std::min(at + span.times.times[i].count(), end);
            if (static_cast<Stage>(i) != Stage::blocked && stop > at) {
                worker.frames.push_back({.name = std::string(stage_name(static_cast<Stage>(i))),
                                         .start_ns = at,
                                         .end_ns = stop,
                                         .parent = outer});
                at = stop;
            }
        }
    }
    for (auto& [id, worker] : workers) {
        threads.push_back(std::move(worker));
    }
}

}  // namespace

std::string stack_of(const Profile& profile, std::span<const EventNode> nodes, std::size_t node) {
    std::string stack;
    for (auto at = static_cast<std::int64_t>(node); at != EventNode::kNone;
         at = nodes[static_cast<std::size_t>(at)].parent) {
        const ProfileEvent& event = profile.events[nodes[static_cast<std::size_t>(at)].event];
        if (!is_step(event)) {
            stack = frame_name(event.name) + (stack.empty() ? "" : ";") + stack;
        }
    }
    return stack;
}

std::vector<ThreadStacks> thread_stacks(const Profile& profile, std::span<const EventNode> nodes) {
    std::vector<ThreadStacks> threads = host_stacks(profile, nodes);
    add_work(profile, threads);
    return threads;
}

StackSum sum_stacks(const ThreadStacks& stacks) {
    // Sums by an arena first, since children move when their vector grows.
    struct Node {
        StackSum sum;
        std::vector<std::size_t> children = {};
        std::map<std::string, std::size_t> by_name = {};
    };
    std::vector<Node> nodes;
    nodes.push_back({.sum = {.name = stacks.thread, .count = 1}});
    std::vector<std::size_t> node_of;
    for (const StackFrame& frame : stacks.frames) {
        const std::size_t outer =
            frame.parent == EventNode::kNone ? 0 : node_of[static_cast<std::size_t>(frame.parent)];
        const auto [found, added] = nodes[outer].by_name.try_emplace(frame.name, nodes.size());
        const std::size_t at = found->second;
        if (added) {
            nodes[outer].children.push_back(at);
            nodes.push_back({.sum = {.name = frame.name}});
        }
        const std::int64_t time = frame.end_ns - frame.start_ns;
        ++nodes[at].sum.count;
        nodes[at].sum.total_ns += time;
        nodes[at].sum.self_ns += time;
        if (outer == 0) {
            nodes[0].sum.total_ns += time;
        } else {
            nodes[outer].sum.self_ns -= time;
        }
        node_of.push_back(at);
    }
    for (std::size_t i = nodes.size(); i-- > 0;) {  // children come after their callers
        for (const std::size_t child : nodes[i].children) {
            nodes[i].sum.children.push_back(std::move(nodes[child].sum));
        }
    }
    return std::move(nodes[0].sum);
}

}  // namespace stoker
