// Counters of network interfaces, and the rates between two readings. A container has its own interfaces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct NetworkCounters {
    std::string name;  // "eth0"; "lo" is the host itself
    std::int64_t received_bytes = 0;
    std::int64_t sent_bytes = 0;
    std::int64_t lost = 0;  // packets with errors or dropped, in both directions
};

// The interfaces in /proc/net/dev that were ever used.
std::vector<NetworkCounters> parse_network(std::string_view net_dev);

// `root` replaces "/" in tests.
std::vector<NetworkCounters> read_network(const std::string& root = "");

struct NetworkRates {
    std::string name;
    double received_bytes = 0;  // a second
    double sent_bytes = 0;
    double lost = 0;  // packets a second
};

// The interfaces of both readings. `seconds` passed between them, more than 0.
std::vector<NetworkRates> network_rates(std::span<const NetworkCounters> before, std::span<const NetworkCounters> after,
                                        double seconds);

}  // namespace stoker
