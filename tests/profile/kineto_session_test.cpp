// Kineto itself, on ops whose FLOPs, shapes and memory are known.
#include "stoker/profile/kineto_session.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
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

TEST(KinetoSession, OperatorsHaveNoArgumentsOfKineto) {
    const Profile profile = recorded({}, [] { at::mm(at::ones({5, 7}), at::ones({7, 11})); });
    ASSERT_FALSE(profile.events.empty());
    for (const ProfileEvent& event : profile.events) {
        EXPECT_EQ(event.metadata, "") << event.name;
    }
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

std::uint64_t sum_of_flops(const Profile& profile) {
    const std::vector<std::uint64_t> flops = flops_of(profile, event_tree(profile));
    return std::accumulate(flops.begin(), flops.end(), std::uint64_t{0});
}

TEST(KinetoSession, CountsATransposedConvolutionAndItsGradients) {
    const auto work = [](bool backward) {
        const at::Tensor image = at::ones({2, 3, 8, 8}).requires_grad_();
        const at::Tensor weight = at::ones({3, 5, 4, 4}).requires_grad_();
        const at::Tensor out = at::conv_transpose2d(image, weight, {}, 2, 1);  // (2, 5, 16, 16)
        if (backward) {
            out.sum().backward();
        }
    };
    const std::uint64_t forward = 2U * 2 * 3 * 8 * 8 * 5 * 4 * 4;
    EXPECT_EQ(sum_of_flops(recorded({}, [&] { work(false); })), forward);
    EXPECT_EQ(by_name(recorded({}, [&] { work(true); })).at("aten::convolution_backward").flops, 2 * forward);
}

TEST(KinetoSession, CountsAConvolutionWithPaddingSame) {
    const Profile profile = recorded({}, [] {
        at::conv2d(at::ones({2, 3, 16, 16}), at::ones({8, 3, 3, 3}), {}, 1, "same");
    });
    EXPECT_EQ(sum_of_flops(profile), 2U * 2 * 8 * 16 * 16 * 3 * 3 * 3);
}

TEST(KinetoSession, CountsAttentionAndItsGradients) {
    const Profile profile = recorded({}, [] {
        const at::Tensor query = at::ones({2, 3, 16, 8}).requires_grad_();
        const at::Tensor key = at::ones({2, 3, 24, 8}).requires_grad_();
        const at::Tensor value = at::ones({2, 3, 24, 8}).requires_grad_();
        at::scaled_dot_product_attention(query, key, value).sum().backward();
    });
    const std::uint64_t product = 2U * 2 * 3 * 16 * 24 * 8;  // of all queries with all keys
    const auto rows = by_name(profile);
    EXPECT_EQ(rows.at("aten::scaled_dot_product_attention").flops, 2 * product);
    EXPECT_EQ(rows.at("aten::_scaled_dot_product_flash_attention_for_cpu_backward").flops, 5 * product);
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
