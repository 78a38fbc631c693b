// Which network an IP address belongs to. A server on the internet must not send this program, by a redirect, to
// services that only this machine or its network can reach.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

enum class AddressKind : std::uint8_t { global, private_network, link_local, loopback };

// The kind of an IPv4 or IPv6 address in text form, without a port. An IPv4 address inside an IPv6 one (IPv4-mapped,
// NAT64) counts as itself. Any other text counts as loopback, the most restricted kind.
AddressKind address_kind(const std::string& address);

// "global", "private", "link-local", "loopback".
std::string_view address_kind_name(AddressKind kind);

}  // namespace stoker
