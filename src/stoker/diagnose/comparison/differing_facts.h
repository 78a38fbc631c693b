// The differences between two runs: facts, keys of their recipes, and figures of the records other than the phases.
#pragma once

#include <string>
#include <vector>

#include "stoker/diagnose/comparison/fact_table.h"
#include "stoker/diagnose/comparison/step_times.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/records/records.h"

namespace stoker {

struct Difference {
    std::string key;                     // "data.workers", "load.other_processes", "syncs.train.py:41"
    std::string name = {};               // in words, of a figure; that of a fact is its key
    std::string a = {};                  // as text; empty: there is none
    std::string b = {};                  // likewise
    double growth = 0;                   // of a number: ln(b / a), at most 9 either way; 0: not a number
    bool is_number = false;              // both are
    bool observed = false;               // a measured figure, and no setting
    std::optional<double> seconds = {};  // of a place in the program: by which its time in a step changed
    const FactRow* row = nullptr;
};

// By the first rank of each.
std::vector<Difference> differing_facts(const RunRecords& a, const RunRecords& b);

// One of the runs, for figures.
struct Side {
    const RankRecords& rank;
    const RunSummary& summary;
    const StepTimes& times;
};
std::vector<Difference> differing_figures(const Side& a, const Side& b);

// ln(b / a), at most 9 either way.
double growth_of(double a, double b);
// Whether they differ by no more than this part.
bool alike(double a, double b, double tolerance);

// Microseconds of a worker for a sample, by stage; empty without workers' clocks.
std::optional<std::array<double, kStages>> stage_times(const RunSummary& run);

// The share of the cores' time that other processes took, if no core was free; 0 if it is not known.
double others_share(const RankRecords& rank, const RunSummary& run);
// By the hypervisor, or the quota of a container.
double stolen_share(const RankRecords& rank);

}  // namespace stoker
