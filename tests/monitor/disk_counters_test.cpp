// Which lines of /proc/diskstats are disks, and their rates.
#include "stoker/monitor/disk_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names(const std::string& text) {
    std::vector<std::string> list;
    for (const DiskCounters& disk : parse_disks(text)) {
        list.push_back(disk.name);
    }
    return list;
}

TEST(DiskCounters, PartitionsAndUnusedDevicesAreLeftOut) {
    std::string text;
    for (const char* name : {"loop0", "ram1", "zram0", "sr0", "sda", "sda1", "sda15", "sdaa", "nvme0n1", "nvme0n1p1",
                             "dm-1", "dm-10", "md127", "mmcblk0", "mmcblk0p2", "vda"}) {
        text += fmt::format("  8  0 {} 1 0 8 1 1 0 8 1 0 1 2\n", name);
    }
    text += "  8 0 sdb 0 0 0 0 0 0 0 0 0 0 0\n";
    EXPECT_THAT(names(text), ElementsAre("sda", "sdaa", "nvme0n1", "dm-1", "dm-10", "md127", "mmcblk0", "vda"));
}

TEST(DiskCounters, FieldsAreThoseOfTheKernel) {
    const auto disks = parse_disks("259 0 nvme0n1 100 5 2000 300 40 6 800 70 1 900 370 1 2 3 4 5 6\n");
    ASSERT_EQ(disks.size(), 1);
    const DiskCounters& disk = disks[0];
    EXPECT_EQ(disk.reads, 100);
    EXPECT_EQ(disk.read_bytes, 2000 * 512);
    EXPECT_EQ(disk.read_ms, 300);
    EXPECT_EQ(disk.writes, 40);
    EXPECT_EQ(disk.write_bytes, 800 * 512);
    EXPECT_EQ(disk.write_ms, 70);
    EXPECT_EQ(disk.busy_ms, 900);
}

TEST(DiskCounters, ShortAndForeignLinesAreSkipped) {
    EXPECT_THAT(names(""), IsEmpty());
    EXPECT_THAT(names("8 0 sda 1 2 3\n"), IsEmpty());
    EXPECT_THAT(names("8 0 sda 1 0 8 1 1 x 8 1 0 1\n8 0 sdb -1 0 8 1 1 0 8 1 0 1\n\n8\n"), IsEmpty());
}

TEST(DiskCounters, RatesAndLatency) {
    const std::vector<DiskCounters> before = {{.name = "vda", .reads = 10, .read_bytes = 1000, .read_ms = 50},
                                              {.name = "gone", .reads = 1}};
    const std::vector<DiskCounters> after = {
        {.name = "vda", .reads = 30, .read_bytes = 5000, .read_ms = 60, .writes = 0, .busy_ms = 1000},
        {.name = "new", .reads = 1}};
    const auto rates = disk_rates(before, after, 2);
    ASSERT_EQ(rates.size(), 1);
    EXPECT_EQ(rates[0].name, "vda");
    EXPECT_DOUBLE_EQ(rates[0].read_bytes, 2000);
    EXPECT_DOUBLE_EQ(rates[0].reads, 10);
    EXPECT_DOUBLE_EQ(rates[0].read_ms.value(), 0.5);
    EXPECT_FALSE(rates[0].write_ms);
    EXPECT_DOUBLE_EQ(rates[0].busy, 0.5);
    const auto replaced = disk_rates(after, before, 2);  // counters that fell
    EXPECT_DOUBLE_EQ(replaced[0].read_bytes, 0);
    EXPECT_FALSE(replaced[0].read_ms);
}

TEST(DiskCounters, MillisecondsWrapAt32Bits) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
    const std::vector<DiskCounters> before = {{.name = "vda", .reads = 10, .read_ms = kMost, .busy_ms = kMost - 499}};
    const std::vector<DiskCounters> after = {{.name = "vda", .reads = 30, .read_ms = 9, .busy_ms = 500}};
    const auto rates = disk_rates(before, after, 2);
    EXPECT_DOUBLE_EQ(rates[0].read_ms.value(), 0.5);
    EXPECT_DOUBLE_EQ(rates[0].busy, 0.5);
}

}  // namespace
}  // namespace stoker
