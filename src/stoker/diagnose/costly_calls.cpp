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

std::vector<SyncEntry> costly_syncs(const RankRecords& rank, std::size_t most) {
    std::map<std::string, SyncEntry> places;
    const auto add = [&](const std::vector<SyncEntry>& syncs) {
        for (const SyncEntry& sync : syncs) {
            SyncEntry& sum = places[sync.place];
            sum.place = sync.place;
            sum.count += sync.count;
            sum.us += sync.us;
        }
    };
    if (rank.profile && !rank.profile->syncs.empty()) {
        add(rank.profile->syncs);
    } else {
        for (const IntervalEntry& interval : rank.intervals) {
            add(interval.syncs);
        }
    }
    std::vector<SyncEntry> syncs;
    syncs.reserve(places.size());
    for (auto& [_, sum] : places) {
        syncs.push_back(std::move(sum));
    }
    std::ranges::stable_sort(syncs, std::greater(), &SyncEntry::us);
    syncs.resize(std::min(most, syncs.size()));
    return syncs;
}

double steps_of_syncs(const RankRecords& rank) {
    std::int64_t steps = 0;
    if (rank.profile && !rank.profile->syncs.empty()) {
        steps = rank.profile->steps > 0 ? rank.profile->steps : std::ssize(rank.steps);
    } else {
        for (const IntervalEntry& interval : rank.intervals) {
            steps += interval.last_step - interval.first_step + 1;
        }
    }
    return std::max(1.0, static_cast<double>(steps));
}

}  // namespace stoker
