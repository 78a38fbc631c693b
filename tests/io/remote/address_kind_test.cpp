#include "stoker/io/remote/address_kind.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

void expect_kind(AddressKind kind, std::initializer_list<const char*> addresses) {
    for (const char* address : addresses) {
        EXPECT_EQ(address_kind_name(address_kind(address)), address_kind_name(kind)) << address;
    }
}

TEST(AddressKind, OfIpv4) {
    expect_kind(AddressKind::loopback, {"127.0.0.1", "127.255.1.2", "0.0.0.0"});
    expect_kind(AddressKind::link_local, {"169.254.169.254"});
    expect_kind(AddressKind::private_network,
                {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
                 "192.0.0.1", "192.0.0.255", "198.18.0.1", "198.19.255.255"});
    expect_kind(AddressKind::global,
                {"8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.63.0.1", "100.128.0.1", "169.253.0.1",
                 "11.0.0.1", "128.0.0.1", "192.0.1.1", "192.1.0.1", "198.17.0.1", "198.20.0.1"});
}

TEST(AddressKind, OfIpv6) {
    expect_kind(AddressKind::loopback, {"::1", "::", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1"});
    expect_kind(AddressKind::link_local, {"fe80::1", "febf::1", "fe80::1%eth0", "::ffff:169.254.169.254"});
    expect_kind(AddressKind::private_network,
                {"fc00::1", "fdff::1", "fec0::1", "::ffff:10.0.0.1", "64:ff9b:1::808:808", "64:ff9b:1:ffff::1"});
    expect_kind(AddressKind::global,
                {"2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808", "fe00::1", "64:ff9b:2::1"});
}

TEST(AddressKind, TextThatIsNoAddressIsTheMostRestricted) {
    expect_kind(AddressKind::loopback, {"", "localhost", "1.2.3", "0x7f.1", "[2001::1]"});
}

}  // namespace
}  // namespace stoker
