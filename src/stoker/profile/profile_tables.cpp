#include "stoker/profile/profile_tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double us(std::int64_t ns) {
    return static_cast<double>(ns) / 1e3;
}

// Calls of the runtime in which the host waits for the device.
bool waits(const ProfileEvent& event) {
    constexpr std::array kWaits = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"};
    return event.kind == EventKind::runtime && std::ranges::find(kWaits, event.name) != kWaits.end();
}

// "Memcpy HtoD (Pageable -> Device)" -> HtoD.
std::string copy_kind(std::string_view name) {
    constexpr std::string_view kPrefix = "Memcpy ";
    const std::size_t begin = name.starts_with(kPrefix) ? kPrefix.size() : 0;
    return std::string(name.substr(begin, name.find(' ', begin) - begin));
}

std::int64_t bytes_of(const ProfileEvent& event) {
    const Json json = Json::parse("{" + event.metadata + "}", nullptr, /*allow_exceptions=*/false);
    const auto bytes = json.is_object() ? json.find("bytes") : json.end();
    return json.is_object() && bytes != json.end() && bytes->is_number() ? bytes->get<std::int64_t>() : 0;
}

bool is_collective(std::string_view name) {
    return name.starts_with("nccl:") || name.starts_with("gloo:");
}

std::vector<CopyEntry> copies_of(const Profile& profile) {
    std::map<std::string, CopyEntry> copies;
    for (const ProfileEvent& event : profile.events) {
        if (event.kind == EventKind::copy) {
            CopyEntry& copy = copies[event.name];
            copy.kind = copy_kind(event.name);
            copy.pageable = event.name.find("Pageable") != std::string::npos;
            ++copy.count;
            copy.bytes += bytes_of(event);
            copy.us += us(event.duration_ns());
        }
    }
    std::vector<CopyEntry> entries;
    for (auto& [name, copy] : copies) {
        entries.push_back(std::move(copy));
    }
    return entries;
}

std::vector<SyncEntry> syncs_of(const Profile& profile, std::span<const EventNode> nodes) {
    std::unordered_map<std::uint64_t, std::string_view> ops;
    for (const EventNode& node : nodes) {
        const ProfileEvent& event = profile.events[node.event];
        ops.emplace(event.id, event.place.empty() ? event.name : event.place);
    }
    std::map<std::string, SyncEntry> syncs;
    for (const ProfileEvent& event : profile.events) {
        if (waits(event)) {
            const auto op = ops.find(event.op);
            const std::string place(event.op != 0 && op != ops.end() ? op->second : event.name);
            SyncEntry& sync = syncs[place];
            sync.place = place;
            ++sync.count;
            sync.us += us(event.duration_ns());
        }
    }
    std::vector<SyncEntry> entries;
    for (auto& [place, sync] : syncs) {
        entries.push_back(std::move(sync));
    }
    return entries;
}

std::vector<CollectiveEntry> collectives_of(const Profile& profile) {
    std::map<std::string, CollectiveEntry> collectives;
    for (const ProfileEvent& event : profile.events) {
        if (is_collective(event.name) && (event.kind == EventKind::op || event.kind == EventKind::range)) {
            CollectiveEntry& entry = collectives[event.name];
            entry.name = event.name;
            entry.backend = event.name.substr(0, 4);
            entry.on_device = entry.backend == "nccl";
            ++entry.count;
            entry.us += us(event.duration_ns());
        }
    }
    std::vector<CollectiveEntry> entries;
    for (auto& [name, entry] : collectives) {
        entries.push_back(std::move(entry));
    }
    return entries;
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

ProfileEntry profile_entry(const Profile& profile, std::span<const EventNode> nodes) {
    ProfileEntry entry{.span_us = us(profile.span_ns())};
    for (OperatorStats& row : key_averages(profile, nodes, GroupBy::shape)) {
        entry.operators.push_back({.name = std::move(row.name),
                                   .count = row.count,
                                   .self_us = row.self_us,
                                   .device_us = row.device_us,
                                   .shapes = std::move(row.shapes),
                                   .place = std::move(row.place)});
    }
    entry.copies = copies_of(profile);
    entry.syncs = syncs_of(profile, nodes);
    entry.collectives = collectives_of(profile);
    return entry;
}

}  // namespace stoker
