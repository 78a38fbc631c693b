// The seconds of each judged step by phase, and what happens once in many steps: checkpoints and evaluations. The
// latter follow a setting and not chance, so their number is fixed, and only their length varies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "stoker/diagnose/judged_steps.h"
#include "stoker/records/records.h"

namespace stoker {

using PhaseSeconds = std::array<double, kPhases>;

double sum_of(const PhaseSeconds& seconds);

struct RareCost {
    std::int64_t count = 0;
    double every = 0;      // steps from one to the next
    double seconds = 0;    // of one, mean
    double deviation = 0;  // standard deviation of that mean

    double per_step() const { return count > 0 ? seconds / every : 0; }
};

struct StepTimes {
    JudgedSteps judged = {};
    std::vector<PhaseSeconds> steps = {};  // without rare costs
    RareCost checkpoint = {};
    RareCost evaluation = {};
    std::optional<double> between_epochs = {};  // seconds in a step, of checkpoints that no step holds
    std::optional<double> samples = {};         // of a step, mean
    std::int64_t last_step = 0;                 // of the records

    PhaseSeconds mean() const;  // of the judged steps, without rare costs
};

// For one rank. Reads of losses after a step count to it.
StepTimes step_times(const RankRecords& rank);

// Leaves out of both what one of them is too short to have, or does not record. Returns the phases that were left out.
std::vector<Phase> drop_what_one_lacks(StepTimes& a, StepTimes& b);

// Some phases of one may be one phase of the other: forward, backward and optimizer become `step` in both.
void join_passes_if_one_does(StepTimes& a, StepTimes& b);

}  // namespace stoker
