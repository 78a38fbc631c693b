#include "stoker/profile/profile_tables.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
    return json_text(json) + "\n";
}

double us(std::int64_t ns) {
    return static_cast<double>(ns) / 1e3;
}

}  // namespace

std::string operators_json(const Profile& profile, std::span<const OperatorStats> rows) {
    std::int64_t steps = 0;
    for (const ProfileWindow& window : profile.windows) {
        steps += window.last_step - window.first_step + 1;
    }
    Json operators = Json::array();
    std::uint64_t flops = 0;
    for (const OperatorStats& row : rows) {
        flops += row.flops;
        operators.push_back({{"name", row.name},
                             {"shapes", row.shapes},
                             {"stack", row.stack},
                             {"place", row.place},
                             {"count", row.count},
                             {"self_us", row.self_us},
                             {"total_us", row.total_us},
                             {"device_us", row.device_us},
                             {"self_bytes", row.self_bytes},
                             {"flops", row.flops}});
    }
    return dump({{"steps", steps}, {"span_us", us(profile.span_ns())}, {"flops", flops}, {"operators", operators}});
}

std::string memory_json(const Profile& profile) {
    const std::int64_t zero = profile.windows.empty() ? 0 : profile.windows.front().begin_ns;
    std::map<std::string, Json> devices;
    for (const MemoryEvent& change : profile.memory) {
        Json& device = devices
                           .try_emplace(change.device, Json{{"device", change.device},
                                                            {"peak_bytes", std::int64_t{0}},
                                                            {"points", Json::array()}})
                           .first->second;
        device["peak_bytes"] = std::max(device["peak_bytes"].get<std::int64_t>(), change.allocated);
        device["points"].push_back({us(change.at_ns - zero), change.allocated, change.reserved});
    }
    Json all = Json::array();
    for (auto& [name, device] : devices) {
        all.push_back(std::move(device));
    }
    return dump({{"devices", all}});
}

}  // namespace stoker
