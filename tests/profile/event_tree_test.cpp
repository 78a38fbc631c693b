// The calls between operators, and the time, memory and device time of each.
#include "stoker/profile/event_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "profile/made_profile.h"

namespace stoker {
namespace {

struct Seen {
    std::string parent;
    std::int64_t self_us = 0;
    std::int64_t device_us = 0;
    std::int64_t bytes = 0;
    bool operator==(const Seen&) const = default;
};

std::map<std::string, Seen> seen(const Profile& profile) {
    const std::vector<EventNode> nodes = event_tree(profile);
    std::map<std::string, Seen> all;
    for (const EventNode& node : nodes) {
        const std::string parent = node.parent == EventNode::kNone
                                       ? ""
                                       : profile.events[nodes[static_cast<std::size_t>(node.parent)].event].name;
        all[profile.events[node.event].name] = {.parent = parent,
                                                .self_us = node.self_ns / 1000,
                                                .device_us = node.device_ns / 1000,
                                                .bytes = node.self_bytes};
    }
    return all;
}

TEST(EventTree, NestsRangesAndOpsAndSharesOutTimeAndMemory) {
    const std::map<std::string, Seen> expected = {
        {"ProfilerStep#1", {.parent = "", .self_us = 100}},
        {"wait", {.parent = "ProfilerStep#1", .self_us = 0}},
        {"enumerate(DataLoader)#Loader.__next__", {.parent = "wait", .self_us = 500}},
        {"forward", {.parent = "ProfilerStep#1", .self_us = 70, .bytes = -4096}},
        {"aten::linear", {.parent = "forward", .self_us = 90}},
        {"aten::addmm", {.parent = "aten::linear", .self_us = 200, .device_us = 80, .bytes = 4096}},
        {"aten::relu", {.parent = "forward", .self_us = 40, .bytes = 1024}}};
    const auto found = seen(made_profile());
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, node] : expected) {
        EXPECT_TRUE(found.at(name) == node)
            << name << ": in " << found.at(name).parent << ", " << found.at(name).self_us << " us, "
            << found.at(name).device_us << " us on the device, " << found.at(name).bytes << " bytes";
    }
}

TEST(EventTree, ThreadsDoNotNestInEachOther) {
    Profile profile = made_profile();
    ProfileEvent other = made_event(ProfiledKind::op, "aten::other", 560, 570, 9);
    other.thread = kThread + 1;
    profile.events.push_back(other);
    const auto found = seen(profile);
    EXPECT_EQ(found.at("aten::other").parent, "");
    EXPECT_EQ(found.at("aten::addmm").self_us, 200);
}

TEST(EventTree, AChildThatEndsLateCostsItsParentNoNegativeTime) {
    Profile profile;
    profile.events = {made_event(ProfiledKind::op, "outer", 0, 10), made_event(ProfiledKind::op, "inner", 0, 10)};
    profile.events[1].end_ns += 40;  // the clock's granularity
    profile.events[1].start_ns += 1;
    const auto found = seen(profile);
    EXPECT_EQ(found.at("inner").parent, "outer");
    EXPECT_GE(found.at("outer").self_us, 0);
}

}  // namespace
}  // namespace stoker
