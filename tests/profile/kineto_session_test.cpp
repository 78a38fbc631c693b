// Kineto itself, on ops whose FLOPs, shapes and memory are known.
#include "stoker/profile/kineto_session.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/flops.h"
#include "stoker/profile/key_averages.h"
#include "stoker/profile/recorded_range.h"

namespace stoker {
namespace {

template <typename Work>
Profile recorded(const KinetoOptions& options, const Work& work) {
    KinetoSession session(options);
    session.prepare();
    session.start();
    work();
    Profile profile;
    session.stop(profile);
    return profile;
}

std::map<std::string, OperatorStats> by_name(const Profile& profile) {
    std::map<std::string, OperatorStats> rows;
    for (const OperatorStats& row : key_averages(profile, event_tree(profile), GroupBy::name)) {
        rows[row.name] = row;
    }
    return rows;
}

TEST(KinetoSession, FlopsEqualHandCounts) {
    const Profile profile = recorded({}, [] {
        at::mm(at::ones({5, 7}), at::ones({7, 11}));
        at::addmm(at::ones({11}), at::ones({5, 7}), at::ones({7, 11}));
        at::conv2d(at::ones({2, 3, 16, 16}), at::ones({8, 3, 3, 3}), {}, 2, 1);
    });
    const auto rows = by_name(profile);
    EXPECT_EQ(rows.at("aten::mm").flops, 2U * 5 * 7 * 11);
    EXPECT_EQ(rows.at("aten::addmm").flops, 2U * 5 * 7 * 11);
    EXPECT_EQ(rows.at("aten::conv2d").flops, 2U * 2 * 8 * 8 * 8 * 3 * 3 * 3);
    const std::vector<EventNode> nodes = event_tree(profile);
    const std::vector<std::uint64_t> flops = flops_of(profile, nodes);
    EXPECT_EQ(std::accumulate(flops.begin(), flops.end(), std::uint64_t{0}),
              2U * 5 * 7 * 11 * 2 + 2U * 2 * 8 * 8 * 8 * 3 * 3 * 3)
        << "what conv2d calls must not count again";
}

TEST(KinetoSession, CountsTheGradientsOfAConvolution) {
    const Profile profile = recorded({}, [] {
        const at::Tensor image = at::ones({2, 3, 16, 16}).requires_grad_();
        const at::Tensor weight = at::ones({8, 3, 3, 3}).requires_grad_();
        at::conv2d(image, weight, {}, 1, 1).sum().backward();
    });
    const std::uint64_t forward = 2U * 2 * 8 * 16 * 16 * 3 * 3 * 3;
    const auto rows = by_name(profile);
    EXPECT_EQ(rows.at("aten::conv2d").flops, forward);
    EXPECT_EQ(rows.at("aten::convolution_backward").flops, 2 * forward);
}

TEST(KinetoSession, RecordsShapesRangesAndMemory) {
    const Profile profile = recorded({}, [] {
        const RecordedRange step("ProfilerStep#1");
        const RecordedRange range("forward");
        const at::Tensor sum = at::mm(at::ones({256, 64}), at::ones({64, 256}));
    });
    const std::vector<EventNode> nodes = event_tree(profile);
    bool found = false;
    for (const EventNode& node : nodes) {
        const ProfileEvent& event = profile.events[node.event];
        if (event.name == "aten::mm") {
            found = true;
            EXPECT_EQ(event.kind, ProfiledKind::op);
            EXPECT_EQ(event.shapes, "[[256, 64], [64, 256]]");
            ASSERT_NE(node.parent, EventNode::kNone);
            const ProfileEvent& caller = profile.events[nodes[static_cast<std::size_t>(node.parent)].event];
            EXPECT_EQ(caller.name, "forward");
            EXPECT_EQ(caller.kind, ProfiledKind::range);
            EXPECT_GE(node.self_bytes, 256 * 256 * 4);
        }
    }
    EXPECT_TRUE(found);
    ASSERT_FALSE(profile.memory.empty());
    std::int64_t released = 0;
    for (const MemoryEvent& change : profile.memory) {
        EXPECT_EQ(change.device, "cpu");
        released -= std::min<std::int64_t>(change.bytes, 0);
    }
    EXPECT_GE(released, 256 * 256 * 4);
}

TEST(KinetoSession, RecordsOnlyWhatItIsAskedFor) {
    const Profile profile = recorded({.shapes = false, .memory = false, .flops = false}, [] {
        at::mm(at::ones({5, 7}), at::ones({7, 11}));
    });
    EXPECT_TRUE(profile.memory.empty());
    for (const ProfileEvent& event : profile.events) {
        EXPECT_EQ(event.shapes, "");
        EXPECT_EQ(event.flops, 0U);
    }
}

TEST(KinetoSession, RecordsAgainAfterAnEnd) {
    const auto work = [] { at::mm(at::ones({5, 7}), at::ones({7, 11})); };
    EXPECT_TRUE(by_name(recorded({}, work)).contains("aten::mm"));
    EXPECT_TRUE(by_name(recorded({}, work)).contains("aten::mm"));
    {
        KinetoSession dropped({});
        dropped.start();
    }
    EXPECT_TRUE(by_name(recorded({}, work)).contains("aten::mm"));
}

}  // namespace
}  // namespace stoker
