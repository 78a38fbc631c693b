// Figures of the records other than the phases: stages of the workers, evaluations and checkpoints, load, places.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

#include "stoker/base/byte_text.h"
#include "stoker/diagnose/comparison/differing_facts.h"
#include "stoker/diagnose/counter_mean.h"

namespace stoker {
namespace {

// Collects figures that differ by more than their row allows.
struct Figures {
    std::vector<Difference> out = {};

    void add(const std::string& key, const std::string& name, double a, double b, double least, auto text) {
        const FactRow& row = row_of(key);
        if (std::abs(a - b) > least && !alike(a, b, row.tolerance)) {
            out.push_back({.key = key,
                           .name = name,
                           .a = text(a),
                           .b = text(b),
                           .growth = growth_of(a, b),
                           .is_number = true,
                           .observed = true,
                           .row = &row});
        }
    }
};

std::string share_text(double share) {
    return fmt::format("{:.0f} %", 100 * share);
}

std::string us_text(double us) {
    return us < 1000 ? fmt::format("{:.3g} µs", us) : fmt::format("{:.3g} ms", us / 1000);
}

std::string steps_text(double steps) {
    return fmt::format("{:.4g}", steps);
}

std::string seconds_text(double seconds) {
    return fmt::format("{:.3g} s", seconds);
}

void add_stages(const Side& a, const Side& b, Figures& figures) {
    constexpr double kLeast = 5;  // microseconds
    const auto of_a = stage_times(a.summary);
    const auto of_b = stage_times(b.summary);
    for (std::size_t i = 0; of_a && of_b && i < kStages; ++i) {
        const auto stage = static_cast<Stage>(i);
        if (stage != Stage::blocked) {
            figures.add(fmt::format("workers.{}", stage_name(stage)), fmt::format("{} of a sample", stage_name(stage)),
                        (*of_a)[i], (*of_b)[i], kLeast, us_text);
        }
    }
}

void add_rare(const char* name, const RareCost& a, const RareCost& b, Figures& figures) {
    constexpr double kLeast = 0.5;  // steps
    const std::string every = fmt::format("{}.every", name);
    const std::string between = fmt::format("steps between {}s", name);
    if (a.count > 0 && b.count > 0) {
        figures.add(every, between, a.every, b.every, kLeast, steps_text);
        // Within three standard deviations their lengths are alike.
        const double chance = 3 * std::hypot(a.deviation, b.deviation);
        figures.add(fmt::format("{}.seconds", name), fmt::format("time of one {}", name), a.seconds, b.seconds, chance,
                    seconds_text);
    } else if (a.count + b.count > 0) {
        // None is less often than any.
        figures.out.push_back({.key = every,
                               .name = between,
                               .a = a.count > 0 ? steps_text(a.every) : "",
                               .b = b.count > 0 ? steps_text(b.every) : "",
                               .growth = b.count > 0 ? -1.0 : 1.0,
                               .is_number = true,
                               .observed = true,
                               .row = &row_of(every)});
    }
}

void add_load(const Side& a, const Side& b, Figures& figures) {
    constexpr double kShare = 0.1;
    figures.add("load.other_processes", "cores' time that other processes took", others_share(a.rank, a.summary),
                others_share(b.rank, b.summary), kShare, share_text);
    figures.add("load.steal", "cores' time that the hypervisor took", counter_mean(a.rank, &IntervalEntry::steal_share),
                counter_mean(b.rank, &IntervalEntry::steal_share), kShare, share_text);
    figures.add("load.throttled", "periods in which the quota was used up",
                counter_mean(a.rank, &IntervalEntry::throttled_share),
                counter_mean(b.rank, &IntervalEntry::throttled_share), kShare, share_text);
    constexpr double kBytes = 1e6;  // a second
    figures.add("load.swap", "swapped in", counter_mean(a.rank, &IntervalEntry::swap_in_bytes_per_second),
                counter_mean(b.rank, &IntervalEntry::swap_in_bytes_per_second), kBytes,
                [](double bytes) { return byte_text(std::llround(std::clamp(bytes, 0.0, 9e18))) + "/s"; });
    const double clock_a = counter_mean(a.rank, &IntervalEntry::gpu_clock_share);
    const double clock_b = counter_mean(b.rank, &IntervalEntry::gpu_clock_share);
    if (clock_a > 0 && clock_b > 0) {
        figures.add("load.gpu_clock", "the GPU's clock", clock_a, clock_b, kShare / 2, share_text);
    }
}

// Microseconds in a step, by place.
std::map<std::string, double> waits_by_place(const RankRecords& rank) {
    std::map<std::string, double> us;
    double steps = 0;
    const bool profiled = rank.profile && !rank.profile->syncs.empty();
    for (const SyncEntry& sync : profiled ? rank.profile->syncs : std::vector<SyncEntry>{}) {
        us[sync.place] += sync.us;
    }
    steps = profiled ? static_cast<double>(rank.profile->steps > 0 ? rank.profile->steps : std::ssize(rank.steps)) : 0;
    for (const IntervalEntry& interval : profiled ? std::vector<IntervalEntry>{} : rank.intervals) {
        steps += static_cast<double>(interval.last_step - interval.first_step + 1);
        for (const SyncEntry& sync : interval.syncs) {
            us[sync.place] += sync.us;
        }
    }
    for (auto& [place, time] : us) {
        time /= std::max(steps, 1.0);
    }
    return us;
}

std::map<std::string, double> lines_by_place(const RankRecords& rank) {
    std::map<std::string, double> us;
    double steps = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        steps += static_cast<double>(interval.last_step - interval.first_step + 1);
        for (const LineEntry& line : interval.lines) {
            us[line.place] += line.us;
        }
    }
    for (auto& [place, time] : us) {
        time /= std::max(steps, 1.0);
    }
    return us;
}

// Places whose time in a step changed by `least` microseconds. Lines move when a program is edited: one that moved is
// listed as two.
void add_places(const char* prefix, const char* words, const std::map<std::string, double>& a,
                const std::map<std::string, double>& b, double least, Figures& figures) {
    std::set<std::string> places;
    for (const auto* const side : {&a, &b}) {
        for (const auto& [place, us] : *side) {
            places.insert(place);
        }
    }
    const auto at = [](const std::map<std::string, double>& side, const std::string& place) {
        const auto found = side.find(place);
        return found == side.end() ? 0.0 : found->second;
    };
    for (const std::string& place : places) {
        const std::size_t before = figures.out.size();
        figures.add(prefix + place, words + place, at(a, place), at(b, place), least, us_text);
        if (figures.out.size() > before) {
            figures.out.back().seconds = (at(b, place) - at(a, place)) / 1e6;
        }
    }
}

}  // namespace

std::optional<std::array<double, kStages>> stage_times(const RunSummary& run) {
    if (!run.workers || run.workers->samples <= 0) {
        return std::nullopt;
    }
    std::array<double, kStages> us{};
    for (std::size_t i = 0; i < kStages; ++i) {
        us[i] = 1e6 * seconds_of(run.workers->times[i]) / static_cast<double>(run.workers->samples);
    }
    return us;
}

double others_share(const RankRecords& rank, const RunSummary& run) {
    constexpr double kFull = 0.9;
    if (!run.cores || !run.busy_share || !run.process_cores || *run.busy_share < kFull) {
        return 0;
    }
    const double cores = std::max(rank.facts.host.cores.value_or(1), 0.01);
    const double ours = *run.process_cores * std::max(1, rank.facts.host.ranks.value_or(1)) / cores;
    return std::clamp(*run.busy_share - ours, 0.0, 1.0);
}

double stolen_share(const RankRecords& rank) {
    const double throttled = counter_mean(rank, &IntervalEntry::throttled_share) / 2;  // as the rule counts it
    return std::clamp(counter_mean(rank, &IntervalEntry::steal_share) + throttled, 0.0, 1.0);
}

std::vector<Difference> differing_figures(const Side& a, const Side& b) {
    constexpr double kPart = 0.02;  // of a step of the first
    Figures figures;
    add_stages(a, b, figures);
    add_rare("evaluation", a.times.evaluation, b.times.evaluation, figures);
    add_rare("checkpoint", a.times.checkpoint, b.times.checkpoint, figures);
    add_load(a, b, figures);
    const double least = kPart * 1e6 * sum_of(a.times.mean());
    add_places("syncs.", "wait for the device in a step at ", waits_by_place(a.rank), waits_by_place(b.rank), least,
               figures);
    add_places("lines.", "time in a step of ", lines_by_place(a.rank), lines_by_place(b.rank), least, figures);
    return std::move(figures.out);
}

}  // namespace stoker
