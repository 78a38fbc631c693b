// Two measurements of training: what became slower or faster, in which phase, and which differing fact explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/diagnose/comparison/differing_facts.h"
#include "stoker/diagnose/comparison/interval.h"
#include "stoker/diagnose/finding.h"
#include "stoker/records/records.h"

namespace stoker {

struct MeasuredSide {
    std::string kind = {};  // run | trace
    JudgedSteps judged = {};
    double seconds_per_step = 0;  // with its part of evaluations and checkpoints
    std::optional<double> samples_per_step = {};
};

// Seconds in a step. If `per_sample`, those of B are for as many samples as a step of A has.
struct PhaseChange {
    Phase phase = Phase::wait;
    double a = 0;
    double b = 0;
    Interval change = {};
};

// Microseconds of the loader's workers for a sample.
struct StageChange {
    Stage stage = Stage::read;
    double a = 0;
    double b = 0;
};

struct RankedDifference {
    Difference difference = {};
    double explained = 0;  // the part of the change in the phases that the fact changes, in [0, 1]
    double score = 0;      // the higher, the likelier the cause
};

enum class Outcome : std::uint8_t { same, slower, faster, unclear };
std::string_view outcome_name(Outcome outcome);

struct Comparison {
    MeasuredSide a = {};
    MeasuredSide b = {};
    bool per_sample = false;   // the steps have different numbers of samples
    Interval ratio = {};       // of B's time to A's: of a step, or of a sample if `per_sample`
    Interval step_ratio = {};  // of a step
    std::optional<Interval> sample_ratio = {};
    Outcome outcome = Outcome::same;                 // of B
    std::vector<PhaseChange> phases = {};            // that either has, in the order of the account
    std::vector<StageChange> stages = {};            // empty unless both have workers' clocks
    std::vector<RankedDifference> differences = {};  // those that explain most first
    std::vector<std::size_t> causes = {};            // of `differences`: those that the verdict names
    std::vector<Finding> new_findings = {};          // of B, above info; A has none of their rules
    std::vector<Finding> gone_findings = {};         // of A, likewise
    std::vector<std::string> notes = {};             // what to know of the measurement, a sentence each
    std::string verdict = {};
};

// `a` is the base. The first rank of each is compared.
Comparison compare(const RunRecords& a, const RunRecords& b);

// The document of `stoker diagnose A B --json` (docs/diagnosis.md). `fail_above`: the part by which B may take longer.
std::string to_json(const Comparison& comparison, std::optional<double> fail_above);

// Whether B takes longer by more than this part, with certainty.
bool fails(const Comparison& comparison, double fail_above);

}  // namespace stoker
