// Names in the order in which a person counts them.
#include "stoker/diagnose/torch_trace/natural_order.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <string>
#include <vector>

namespace stoker {
namespace {

TEST(NaturalOrder, NumbersCount) {
    std::vector<std::string> names = {"rank10.json", "rank2.json", "rank", "rank1.json.gz", "rank1.json", "node2_10",
                                      "node10_2",    "node2_9",    ""};
    std::ranges::sort(names, NaturalLess());
    EXPECT_THAT(names, ::testing::ElementsAre("", "node2_9", "node2_10", "node10_2", "rank", "rank1.json",
                                              "rank1.json.gz", "rank2.json", "rank10.json"));
}

TEST(NaturalOrder, DifferentTextsAreNeverEqual) {
    const NaturalLess less;
    const std::vector<std::string> texts = {"a1", "a01", "a001", "a1b", "a", "1", "01", "99999999999999999999999",
                                            "a10"};
    for (const std::string& x : texts) {
        for (const std::string& y : texts) {
            EXPECT_EQ(less(x, y) + less(y, x), x == y ? 0 : 1) << x << " " << y;
        }
    }
}

}  // namespace
}  // namespace stoker
