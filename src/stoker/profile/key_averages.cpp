#include "stoker/profile/key_averages.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "stoker/profile/flops.h"
#include "stoker/profile/stacks.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 7> kColumns = {"self", "total", "device", "memory", "flops", "count", "name"};
constexpr std::array<std::string_view, 3> kGroups = {"name", "shape", "stack"};

template <typename Value, std::size_t kSize>
std::optional<Value> find_name(const std::array<std::string_view, kSize>& names, std::string_view name) {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? std::nullopt : std::optional(static_cast<Value>(found - names.begin()));
}

bool within_its_own_name(const Profile& profile, std::span<const EventNode> nodes, const EventNode& node) {
    const std::string& name = profile.events[node.event].name;
    for (std::int64_t at = node.parent; at != EventNode::kNone; at = nodes[static_cast<std::size_t>(at)].parent) {
        if (profile.events[nodes[static_cast<std::size_t>(at)].event].name == name) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::optional<OperatorColumn> operator_column(std::string_view name) {
    return find_name<OperatorColumn>(kColumns, name);
}

std::optional<GroupBy> group_by(std::string_view name) {
    return find_name<GroupBy>(kGroups, name);
}

std::vector<OperatorStats> key_averages(const Profile& profile, std::span<const EventNode> nodes, GroupBy group) {
    const std::vector<std::uint64_t> flops = flops_of(profile, nodes);
    std::vector<OperatorStats> rows;
    std::unordered_map<std::string, std::size_t> row_of;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const EventNode& node = nodes[i];
        const ProfileEvent& event = profile.events[node.event];
        if (event.kind != ProfiledKind::op) {
            continue;
        }
        const std::string shapes = group == GroupBy::shape ? event.shapes : "";
        const std::string stack = group == GroupBy::stack && node.parent != EventNode::kNone
                                      ? stack_of(profile, nodes, static_cast<std::size_t>(node.parent))
                                      : "";
        const auto [found, added] = row_of.try_emplace(event.name + '\n' + shapes + '\n' + stack, rows.size());
        if (added) {
            rows.push_back({.name = event.name, .shapes = shapes, .stack = stack, .place = event.place});
        }
        OperatorStats& row = rows[found->second];
        ++row.count;
        row.self_us += static_cast<double>(node.self_ns) / 1e3;
        if (!within_its_own_name(profile, nodes, node)) {
            row.total_us += static_cast<double>(event.duration_ns()) / 1e3;
        }
        row.device_us += static_cast<double>(node.device_ns) / 1e3;
        row.self_bytes += node.self_bytes;
        row.flops += flops[i];
    }
    sort_operators(rows, OperatorColumn::self);
    return rows;
}

void sort_operators(std::vector<OperatorStats>& rows, OperatorColumn column) {
    const auto by = [&](auto member) { std::ranges::stable_sort(rows, std::ranges::greater(), member); };
    switch (column) {
        case OperatorColumn::self:
            return by(&OperatorStats::self_us);
        case OperatorColumn::total:
            return by(&OperatorStats::total_us);
        case OperatorColumn::device:
            return by(&OperatorStats::device_us);
        case OperatorColumn::memory:
            return by(&OperatorStats::self_bytes);
        case OperatorColumn::flops:
            return by(&OperatorStats::flops);
        case OperatorColumn::count:
            return by(&OperatorStats::count);
        case OperatorColumn::name:
            std::ranges::stable_sort(rows, {}, &OperatorStats::name);
    }
}

}  // namespace stoker
