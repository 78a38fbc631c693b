// What holds of a result in which packing was kept, before and after all of the data is packed.
#include "stoker/tune/packing.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

TriedChange change(const std::string& key, double gain, const std::string& codec = "") {
    return {.change = {{key, "1"}},
            .before = {"0"},
            .pack_codec = codec,
            .predicted = gain,
            .measured = Estimate{.low = gain - 0.1, .median = gain, .high = gain + 0.1}};
}

// Workers, then raw pixels, then fewer workers, which were faster with those.
TuneResult packed_result() {
    return {.baseline = 100,
            .tuned = 450,
            .gain = Estimate{.low = 4, .median = 4.5, .high = 5},
            .kept = {change("data.workers", 1.5), change("data.train", 2, "raw"), change("data.workers", 1.5)}};
}

TEST(Packing, WithoutPackedDataWhatCameBeforeIsLeft) {
    TuneResult result = packed_result();
    const auto packing = take_packing(result);
    ASSERT_TRUE(packing.has_value());
    suggest(result, *packing);
    ASSERT_EQ(result.kept.size(), 1);
    EXPECT_DOUBLE_EQ(result.tuned, 150);
    EXPECT_FALSE(result.gain.has_value());
    ASSERT_EQ(result.suggested.size(), 2);
    EXPECT_EQ(result.suggested[0].pack_codec, "raw");
    EXPECT_THAT(result.suggested[0].change, testing::IsEmpty());
    EXPECT_EQ(result.suggested[1].reason, "with packed data only");
}

TEST(Packing, WithPackedDataAllIsKept) {
    TuneResult result = packed_result();
    const auto packing = take_packing(result);
    keep(result, packing.value(), {{"data.train", "\"raw.stk\""}});
    ASSERT_EQ(result.kept.size(), 3);
    EXPECT_EQ(text_of(result.kept[1].change), "data.train = \"raw.stk\"");
    EXPECT_EQ(result.tuned, 450);
    EXPECT_TRUE(result.gain.has_value());
}

TEST(Packing, ASecondCodecIsMeasuredAgainstTheOriginal) {
    TuneResult result{.baseline = 100, .kept = {change("data.train", 2, "dct"), change("data.train", 1.5, "raw")}};
    const auto packing = take_packing(result);
    ASSERT_TRUE(packing.has_value());
    EXPECT_EQ(packing->change.pack_codec, "raw");
    EXPECT_DOUBLE_EQ(packing->change.predicted.value(), 3);
    EXPECT_DOUBLE_EQ(packing->change.measured.value().median, 3);
    EXPECT_DOUBLE_EQ(packing->change.measured.value().low, 1.9 * 1.4);
    EXPECT_THAT(packing->change.before, testing::ElementsAre("0"));
    ASSERT_EQ(result.rolled_back.size(), 1);
    EXPECT_THAT(result.rolled_back[0].change, testing::IsEmpty());
    EXPECT_EQ(result.rolled_back[0].reason, "--codec raw is faster");
}

TEST(Packing, NoneIsNothing) {
    TuneResult result{.baseline = 100, .kept = {change("data.workers", 1.5)}};
    EXPECT_FALSE(take_packing(result).has_value());
    EXPECT_EQ(result.kept.size(), 1);
}

}  // namespace
}  // namespace stoker
