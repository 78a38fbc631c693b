// The ranges are those of IANA's registries of special-purpose addresses.
#include "stoker/io/remote/address_kind.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <span>

namespace stoker {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

AddressKind kind_of_v4(std::span<const std::uint8_t, 4> ip) {
    if (ip[0] == 127 || ip[0] == 0) {  // Linux connects 0.0.0.0 to this machine
        return AddressKind::loopback;
    }
    if (ip[0] == 169 && ip[1] == 254) {
        return AddressKind::link_local;
    }
    const bool shared = ip[0] == 100 && (ip[1] & 0xc0) == 64;         // carrier-grade NAT
    const bool protocols = ip[0] == 192 && ip[1] == 0 && ip[2] == 0;  // of the IETF, such as DS-Lite
    const bool benchmark = ip[0] == 198 && (ip[1] & 0xfe) == 18;      // networks of test laboratories
    const bool local = ip[0] == 10 || (ip[0] == 172 && (ip[1] & 0xf0) == 16) || (ip[0] == 192 && ip[1] == 168) ||
                       shared || protocols || benchmark;
    return local ? AddressKind::private_network : AddressKind::global;
}

AddressKind kind_of_v6(const Bytes& ip) {
    constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr std::array<std::uint8_t, 12> kNat64 = {0, 0x64, 0xff, 0x9b};
    const std::span<const std::uint8_t, 4> v4 = std::span(ip).last<4>();
    if (std::equal(kMapped.begin(), kMapped.end(), ip.begin()) ||
        std::equal(kNat64.begin(), kNat64.end(), ip.begin())) {
        return kind_of_v4(v4);
    }
    if (std::all_of(ip.begin(), ip.end() - 4, [](std::uint8_t byte) { return byte == 0; })) {
        return AddressKind::loopback;  // ::, ::1, and the deprecated IPv4-compatible addresses
    }
    if (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80) {
        return AddressKind::link_local;
    }
    const bool site = ip[0] == 0xfe && (ip[1] & 0xc0) == 0xc0;
    constexpr std::array<std::uint8_t, 6> kLocalNat64 = {0, 0x64, 0xff, 0x9b, 0, 1};
    const bool nat64 = std::equal(kLocalNat64.begin(), kLocalNat64.end(), ip.begin());
    return (ip[0] & 0xfe) == 0xfc || site || nat64 ? AddressKind::private_network : AddressKind::global;
}

}  // namespace

AddressKind address_kind(const std::string& address) {
    const std::string ip = address.substr(0, address.find('%'));  // without the interface of fe80::1%eth0
    std::array<std::uint8_t, 4> v4{};
    if (::inet_pton(AF_INET, ip.c_str(), v4.data()) == 1) {
        return kind_of_v4(v4);
    }
    Bytes v6{};
    return ::inet_pton(AF_INET6, ip.c_str(), v6.data()) == 1 ? kind_of_v6(v6) : AddressKind::loopback;
}

std::string_view address_kind_name(AddressKind kind) {
    constexpr std::array<std::string_view, 4> kNames = {"global", "private", "link-local", "loopback"};
    return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace stoker
