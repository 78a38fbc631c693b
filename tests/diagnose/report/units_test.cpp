#include "stoker/diagnose/report/units.h"

#include <gmock/gmock.h>
#include <limits>

namespace stoker {
namespace {

using testing::ElementsAre;

TEST(Units, DurationsHaveThreeDigits) {
    EXPECT_EQ(duration_text(0), "0 s");
    EXPECT_EQ(duration_text(0.85), "850 ns");
    EXPECT_EQ(duration_text(12.345), "12.3 µs");
    EXPECT_EQ(duration_text(999.4), "999 µs");
    EXPECT_EQ(duration_text(999.6), "1 ms");
    EXPECT_EQ(duration_text(4560), "4.56 ms");
    EXPECT_EQ(duration_text(1.5e6), "1.5 s");
    EXPECT_EQ(duration_text(125e6), "2 min 5 s");
    EXPECT_EQ(duration_text(12'000e6), "3 h 20 min");
    EXPECT_EQ(duration_text(std::numeric_limits<double>::quiet_NaN()), "unknown");
    EXPECT_EQ(duration_text(1e300).substr(0, 3), "277");
}

TEST(Units, Numbers) {
    EXPECT_EQ(number_text(12.34), "12.3");
    EXPECT_EQ(number_text(1234567), "1,234,567");
    EXPECT_EQ(number_text(0.00123), "0.0012");
    EXPECT_EQ(number_text(2), "2");
    EXPECT_EQ(percent_text(0.5), "50 %");
    EXPECT_EQ(percent_text(0.1234), "12.3 %");
}

TEST(Units, EvidenceIsWordedByItsUnit) {
    const auto text = [](const char* name, double value) {
        const Fact fact = evidence_fact({name, value});
        return fact.name + ": " + fact.text;
    };
    EXPECT_EQ(text("wait_share", 0.5), "wait share: 50 %");
    EXPECT_EQ(text("copy_us", 1500), "copy: 1.5 ms");
    EXPECT_EQ(text("peak_bytes", 11010048), "peak: 10.5 MiB");
    EXPECT_EQ(text("idle_cores", 5.8), "idle cores: 5.8");
    EXPECT_EQ(text("read_bytes_per_second", 11010048), "read: 10.5 MiB/s");
    EXPECT_EQ(text("samples_per_second", 1234), "samples: 1,234/s");
    EXPECT_EQ(text("cores", 2), "cores: 2");
    EXPECT_EQ(text("seconds", 2), "seconds: 2 s");
}

TEST(Units, TenthsOfPercentSumToTheWhole) {
    EXPECT_THAT(tenths_of_percent(std::vector<double>{1, 1, 1}), ElementsAre(334, 333, 333));
    EXPECT_THAT(tenths_of_percent(std::vector<double>{0, 0}), ElementsAre(0, 0));
    EXPECT_THAT(tenths_of_percent(std::vector<double>{1, 0}), ElementsAre(1000, 0));
}

}  // namespace
}  // namespace stoker
