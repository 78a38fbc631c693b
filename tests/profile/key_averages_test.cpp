// Sums, groups and orders of the operator table, against sums by hand.
#include "stoker/profile/key_averages.h"

#include <gtest/gtest.h>

#include "profile/made_profile.h"

namespace stoker {
namespace {

std::vector<OperatorStats> table(const Profile& profile, GroupBy group) {
    return key_averages(profile, event_tree(profile), group);
}

std::vector<std::string> names(const std::vector<OperatorStats>& rows) {
    std::vector<std::string> all;
    for (const OperatorStats& row : rows) {
        all.push_back(row.name);
    }
    return all;
}

// A second addmm of another shape, outside of a linear.
Profile two_shapes() {
    Profile profile = made_profile();
    ProfileEvent again = made_event(ProfiledKind::op, "aten::addmm", 860, 890, 5);
    again.shapes = "[[10], [64, 128], [128, 10]]";
    again.flops = 2 * 64 * 128 * 10;
    profile.events.push_back(again);
    return profile;
}

TEST(KeyAverages, SumsCallsOfOneName) {
    const std::vector<OperatorStats> rows = table(two_shapes(), GroupBy::name);
    ASSERT_EQ(names(rows), (std::vector<std::string>{"enumerate(DataLoader)#Loader.__next__", "aten::addmm",
                                                     "aten::linear", "aten::relu"}));
    const OperatorStats& addmm = rows[1];
    EXPECT_EQ(addmm.count, 2);
    EXPECT_DOUBLE_EQ(addmm.self_us, 230);
    EXPECT_DOUBLE_EQ(addmm.total_us, 230);
    EXPECT_DOUBLE_EQ(addmm.device_us, 80);
    EXPECT_EQ(addmm.self_bytes, 4096 - 4096);
    EXPECT_EQ(addmm.flops, 2U * 64 * 784 * 128 + 2U * 64 * 128 * 10);
    EXPECT_DOUBLE_EQ(rows[2].total_us, 290);
    EXPECT_DOUBLE_EQ(rows[2].self_us, 90);
}

TEST(KeyAverages, GroupsByShapeAndByStack) {
    const std::vector<OperatorStats> shapes = table(two_shapes(), GroupBy::shape);
    ASSERT_EQ(shapes.size(), 5);
    EXPECT_EQ(shapes[1].shapes, "[[128], [64, 784], [784, 128]]");
    const std::vector<OperatorStats> stacks = table(two_shapes(), GroupBy::stack);
    ASSERT_EQ(stacks.size(), 5);
    EXPECT_EQ(stacks[1].stack, "forward;aten::linear");
    EXPECT_EQ(stacks.back().stack, "forward");
}

TEST(KeyAverages, ACallWithinItsOwnNameAddsNoTotal) {
    Profile profile;
    profile.events = {made_event(ProfiledKind::op, "aten::to", 0, 100, 1),
                      made_event(ProfiledKind::op, "aten::to", 10, 60, 2)};
    const std::vector<OperatorStats> rows = table(profile, GroupBy::name);
    ASSERT_EQ(rows.size(), 1);
    EXPECT_EQ(rows[0].count, 2);
    EXPECT_DOUBLE_EQ(rows[0].total_us, 100);
    EXPECT_DOUBLE_EQ(rows[0].self_us, 100);
}

TEST(KeyAverages, SortsByEveryColumn) {
    std::vector<OperatorStats> rows = {
        {.name = "b", .count = 1, .self_us = 3, .total_us = 1, .device_us = 2, .self_bytes = 9, .flops = 1},
        {.name = "a", .count = 2, .self_us = 1, .total_us = 3, .device_us = 1, .self_bytes = 1, .flops = 9}};
    const auto first = [&](std::string_view column) {
        sort_operators(rows, operator_column(column).value());
        return rows.front().name;
    };
    EXPECT_EQ(first("self"), "b");
    EXPECT_EQ(first("total"), "a");
    EXPECT_EQ(first("device"), "b");
    EXPECT_EQ(first("flops"), "a");
    EXPECT_EQ(first("memory"), "b");
    EXPECT_EQ(first("count"), "a");
    EXPECT_EQ(first("name"), "a");
    EXPECT_EQ(operator_column("colour"), std::nullopt);
}

}  // namespace
}  // namespace stoker
