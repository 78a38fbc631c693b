// By which of its addresses other hosts reach this one.
#pragma once

#include <string>

namespace stoker {

// The numeric address from which this host sends to `host`: that of the interface on the way there. Sends nothing.
// Empty if the name is unknown or nothing leads there.
std::string address_towards(const std::string& host, int port);

// Whether the name service knows the host.
bool is_known_host(const std::string& host);

}  // namespace stoker
