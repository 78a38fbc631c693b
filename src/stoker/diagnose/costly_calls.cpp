#include "stoker/diagnose/costly_calls.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace stoker {

std::vector<FunctionEntry> costly_functions(const RankRecords& rank, std::size_t most) {
    std::vector<FunctionEntry> functions = rank.functions ? rank.functions->functions : std::vector<FunctionEntry>{};
    std::ranges::stable_sort(functions, std::greater(), &FunctionEntry::self_us);
    functions.resize(std::min(most, functions.size()));
    return functions;
}

std::vector<OperatorEntry> costly_operators(const RankRecords& rank, std::size_t most) {
    std::map<std::string, OperatorEntry> sums;
    for (const OperatorEntry& entry : rank.profile ? rank.profile->operators : std::vector<OperatorEntry>{}) {
        OperatorEntry& sum = sums[entry.name];
        sum.name = entry.name;
        sum.count += entry.count;
        sum.self_us += entry.self_us;
        sum.device_us += entry.device_us;
        sum.kernels += entry.kernels;
    }
    std::vector<OperatorEntry> operators;
    operators.reserve(sums.size());
    for (auto& [_, sum] : sums) {
        operators.push_back(std::move(sum));
    }
    std::ranges::stable_sort(operators, std::greater(),
                             [](const OperatorEntry& entry) { return entry.self_us + entry.device_us; });
    operators.resize(std::min(most, operators.size()));
    return operators;
}

}  // namespace stoker
