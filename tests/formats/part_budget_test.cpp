// part_budget: room for two windows of decoded parts, within a quarter of memory.
#include "stoker/formats/part_budget.h"

#include <gtest/gtest.h>

#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

PartBudget budget_of(std::uint64_t stored, std::uint64_t decoded, std::uint64_t largest, std::uint64_t memory) {
    set_memory_limit(static_cast<std::int64_t>(memory));
    const PartBudget budget = part_budget({.stored = stored, .decoded = decoded, .largest = largest});
    set_memory_limit(0);
    return budget;
}

TEST(PartBudget, HoldsTwoWindows) {
    const std::uint64_t memory = 16384 * kMiB;
    const PartBudget budget = budget_of(1000 * kMiB, 10'000 * kMiB, 100 * kMiB, memory);
    EXPECT_EQ(budget.bytes, 2 * (1280 + 100) * kMiB);
    EXPECT_FALSE(budget.short_of_windows);
    EXPECT_EQ(budget_of(1000 * kMiB, 2000 * kMiB, kMiB, memory).bytes, (512 + 2) * kMiB);
    EXPECT_EQ(budget_of(10 * kMiB, 20 * kMiB, kMiB, memory).bytes, 512 * kMiB);
    EXPECT_EQ(budget_of(10 * kMiB, 600 * kMiB, 400 * kMiB, memory).bytes, 600 * kMiB);  // all parts
}

TEST(PartBudget, IsAQuarterOfMemoryAtMost) {
    const PartBudget budget = budget_of(1000 * kMiB, 10'000 * kMiB, 100 * kMiB, 4096 * kMiB);
    EXPECT_EQ(budget.bytes, 1024 * kMiB);
    EXPECT_TRUE(budget.short_of_windows);
    EXPECT_FALSE(budget_of(0, 0, 0, 1024 * kMiB).short_of_windows);
}

TEST(PartBudget, AnotherLeastAndPiecesOfParts) {
    set_memory_limit(static_cast<std::int64_t>(16384 * kMiB));
    PartSizes sizes{.stored = 2000 * kMiB};
    sizes.add_pieces(2000 * kMiB, 8 * kMiB);
    EXPECT_EQ(sizes.largest, 8 * kMiB);
    EXPECT_EQ(part_budget(sizes, 100 * kMiB).bytes, 2 * (128 + 8) * kMiB);
    sizes.add(200 * kMiB);  // a row group with one dictionary
    EXPECT_EQ(sizes.decoded, 2200 * kMiB);
    EXPECT_EQ(sizes.largest, 200 * kMiB);
    EXPECT_GT(part_budget(sizes, 100 * kMiB).bytes, 4 * 200 * kMiB / 2 + 256 * kMiB);
    EXPECT_EQ(part_budget({}, 100 * kMiB).bytes, 100 * kMiB);
    set_memory_limit(0);
}

TEST(PartBudget, SumsOfHostileSizesStop) {
    PartSizes sizes;
    sizes.add(std::uint64_t{1} << 63);
    sizes.add(std::uint64_t{1} << 63);
    EXPECT_EQ(sizes.decoded, ~std::uint64_t{0});
    EXPECT_TRUE(part_budget(sizes).short_of_windows);
}

}  // namespace
}  // namespace stoker
