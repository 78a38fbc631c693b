#include "stoker/monitor/network_counters.h"

#include <algorithm>
#include <optional>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

// "  eth0: bytes packets errs drop fifo frame compressed multicast bytes packets errs drop ...": received, then sent.
// No blank follows the colon in old kernels.
std::optional<NetworkCounters> parse_interface(std::string_view line) {
    const std::size_t colon = line.rfind(':');  // names of old aliases also have a colon
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    std::string_view name = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;  // a fast network sends 2^50 in a day
    std::int64_t values[12] = {};
    for (std::int64_t& value : values) {
        const auto number = take_count(line, kMostBytes);
        if (!number) {
            return std::nullopt;
        }
        value = *number;
    }
    return NetworkCounters{.name = std::string(take_word(name)),
                           .received_bytes = values[0],
                           .sent_bytes = values[8],
                           .lost = values[2] + values[3] + values[10] + values[11]};
}

}  // namespace

std::vector<NetworkCounters> parse_network(std::string_view net_dev) {
    std::vector<NetworkCounters> interfaces;
    for_each_line(net_dev, [&](std::string_view line) {
        auto found = parse_interface(line);
        if (found && found->received_bytes + found->sent_bytes > 0) {
            interfaces.push_back(std::move(*found));
        }
    });
    return interfaces;
}

std::vector<NetworkCounters> read_network(const std::string& root) {
    const auto text = read_counter_file(root + "/proc/net/dev");
    return parse_network(text ? std::string_view(*text) : "");
}

std::vector<NetworkRates> network_rates(std::span<const NetworkCounters> before, std::span<const NetworkCounters> after,
                                        double seconds) {
    std::vector<NetworkRates> rates;
    for (const NetworkCounters& now : after) {
        const auto found = std::ranges::find(before, now.name, &NetworkCounters::name);
        if (found == before.end()) {
            continue;
        }
        const auto per_second = [&](std::int64_t NetworkCounters::*counter) {
            return difference((*found).*counter, now.*counter).value_or(0) / seconds;
        };
        rates.push_back({.name = now.name,
                         .received_bytes = per_second(&NetworkCounters::received_bytes),
                         .sent_bytes = per_second(&NetworkCounters::sent_bytes),
                         .lost = per_second(&NetworkCounters::lost)});
    }
    return rates;
}

}  // namespace stoker
