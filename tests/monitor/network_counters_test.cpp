#include "stoker/monitor/network_counters.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

constexpr const char* kText =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier\n"
    "    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n"
    "  eth0:5000 9 1 2 0 0 0 0 700 5 3 4 0 0 0 0\n"
    "  eth1: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    "  eth2: 1 2 3\n";

TEST(NetworkCounters, UsedInterfacesAreRead) {
    const auto interfaces = parse_network(kText);
    ASSERT_EQ(interfaces.size(), 2);
    EXPECT_EQ(interfaces[0].name, "lo");
    EXPECT_EQ(interfaces[1].name, "eth0");
    EXPECT_EQ(interfaces[1].received_bytes, 5000);
    EXPECT_EQ(interfaces[1].sent_bytes, 700);
    EXPECT_EQ(interfaces[1].lost, 10);
    EXPECT_TRUE(parse_network("").empty());
}

TEST(NetworkCounters, RatesAreOfInterfacesOnBothSides) {
    const auto before = parse_network(kText);
    auto after = before;
    after[1].received_bytes += 300;
    after[1].lost += 6;
    after[0].name = "new";
    const auto rates = network_rates(before, after, 3);
    ASSERT_EQ(rates.size(), 1);
    EXPECT_DOUBLE_EQ(rates[0].received_bytes, 100);
    EXPECT_DOUBLE_EQ(rates[0].sent_bytes, 0);
    EXPECT_DOUBLE_EQ(rates[0].lost, 2);
}

}  // namespace
}  // namespace stoker
