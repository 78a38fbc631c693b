// The table names facts, phases and rules that exist.
#include "stoker/diagnose/comparison/fact_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "stoker/diagnose/diagnose.h"

namespace stoker {
namespace {

TEST(FactTable, NamesEachFactOnceAndRulesThatExist) {
    std::set<std::string_view> keys;
    for (const FactRow& row : fact_rows()) {
        EXPECT_TRUE(keys.insert(row.key).second) << row.key;
        EXPECT_GT(row.phases.size(), 0) << row.key;
        std::istringstream words{std::string(row.rules)};
        for (std::string rule; words >> rule;) {
            EXPECT_TRUE(std::ranges::any_of(rules(), [&](const Rule& known) { return known.id == rule; })) << rule;
        }
    }
    for (const FactRow& row : fact_rows()) {
        EXPECT_TRUE(row.same_as.empty() || keys.contains(row.same_as)) << row.key;
    }
}

TEST(FactTable, TheLongestRowCounts) {
    EXPECT_EQ(row_of("optimizer.name").same_as, "train.optimizer");
    EXPECT_EQ(row_of("optimizer.momentum").key, "optimizer.");
    EXPECT_EQ(row_of("syncs.train.py:41").key, "syncs.");
    EXPECT_TRUE(row_of("data.workers").phases.has(Phase::wait));
    EXPECT_FALSE(row_of("data.workers").phases.has(Phase::forward));
}

TEST(FactTable, AnUnknownFactIsNoCause) {
    EXPECT_LT(row_of("train.invented").weight, kLeastCause);
    EXPECT_EQ(row_of("data.workers_of_others").key, "");
}

}  // namespace
}  // namespace stoker
