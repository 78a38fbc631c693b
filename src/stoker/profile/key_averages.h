// The table of a profile's ops: sums over calls that have the same key, as torch.profiler's key_averages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/profile.h"

namespace stoker {

enum class GroupBy : std::uint8_t {
    name,
    shape,  // and by name
    stack,  // and by name: the ranges and ops above it, outermost first
};

enum class OperatorColumn : std::uint8_t { self, total, device, memory, flops, count, name };

// "self" and so on; empty for another text.
std::optional<OperatorColumn> operator_column(std::string_view name);
std::optional<GroupBy> group_by(std::string_view name);

struct OperatorStats {
    std::string name = {};
    std::string shapes = {};  // empty unless grouped by shape
    std::string stack = {};   // "forward;aten::conv2d"; empty unless grouped by stack
    std::string place = {};   // where TorchScript code called the first of them
    std::int64_t count = 0;
    double self_us = 0;           // host time without the ops that it calls
    double total_us = 0;          // host time with them; an op within one with the same name counts once
    double device_us = 0;         // of the kernels that it launched itself
    std::int64_t self_bytes = 0;  // allocated less released, without the ops that it calls
    std::uint64_t flops = 0;
};

// The statistics of ops, without the named ranges. Largest self time first.
std::vector<OperatorStats> key_averages(const Profile& profile, std::span<const EventNode> nodes, GroupBy group);

// Largest first; names alphabetically. Rows that are alike keep their order.
void sort_operators(std::vector<OperatorStats>& rows, OperatorColumn column);

}  // namespace stoker
