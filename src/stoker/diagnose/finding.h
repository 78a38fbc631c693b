// What the rules say about a run: findings with evidence, a fix and the gain that it should bring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

enum class Severity : std::uint8_t { info, warn, critical };
std::string_view severity_name(Severity severity);

// A measured number that supports a finding; the name ends in its unit: "wait_share", "copy_us", "cores".
struct Evidence {
    std::string name;
    double value = 0;
};

struct RecipeChange {
    std::string key;    // "data.workers"
    std::string value;  // as TOML: 4, true, "ram"
    bool operator==(const RecipeChange&) const = default;
};

struct Fix {
    std::vector<RecipeChange> recipe = {};  // for runs of Stoker; empty: no key does it
    std::string code = {};                  // a line or command for everyone else; empty: none
};

// A factor of throughput: 1.3 means 30 % more samples a second. Rules give that of the steps; diagnose() makes it that
// of the whole run, with evaluations and checkpoints.
struct Gain {
    double low = 1;
    double expected = 1;
    double high = 1;
};

struct Finding {
    std::string rule;  // the id of the rule: "few-workers"
    Severity severity = Severity::info;
    std::string text = {};  // one or two sentences: what is wrong, and what to do
    std::vector<Evidence> evidence = {};
    int rank = 0;                 // where it is worst
    std::vector<int> ranks = {};  // all ranks that it is about, ascending; diagnose() fills it
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    Fix fix = {};
    Gain gain = {};
    double confidence = 0.5;  // in [0, 1]
};

struct Verdict {
    std::string rule = "healthy";
    std::string text = {};
};

struct Diagnosis {
    Verdict verdict = {};
    // One for each rule. First what explains others (other processes, a throttled or stolen CPU, a straggler), unless
    // it is `info`; then by severity, then by expected gain.
    std::vector<Finding> findings = {};
};

class JudgedRun;  // rules/run_summary.h

// A row of the table in docs/diagnosis.md.
struct Rule {
    std::string_view id;            // "few-workers"
    std::string_view signal;        // when it fires
    std::string_view prescription;  // what to do
    std::vector<Finding> (*judge)(const JudgedRun& records);
    bool of_whole_run = false;  // its gain is of the whole run already
};

}  // namespace stoker
