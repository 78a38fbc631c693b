#include "stoker/dist/local_address.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

TEST(LocalAddress, IsThatOfTheInterfaceOnTheWay) {
    EXPECT_EQ(address_towards("127.0.0.1", 29500), "127.0.0.1");
    EXPECT_THAT(address_towards("localhost", 29500), ::testing::AnyOf("127.0.0.1", "::1"));
}

TEST(LocalAddress, OfAnUnknownHostIsEmpty) {
    EXPECT_EQ(address_towards("no-such-host.invalid", 29500), "");
}

}  // namespace
}  // namespace stoker
