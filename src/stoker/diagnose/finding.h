// What is found in a run: rules/ gives evidence, facts and the gain to expect; advice/ the words and the fix for who
// reads.
#pragma once

#include <cstdint>
#include <optional>
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
    std::string code = {};                  // lines of Python or a command; empty: none
};

// Who reads the findings: whoever wrote a recipe or a program, and has a run of it or a trace.
enum class Audience : std::uint8_t {
    recipe,         // a run of Stoker
    own_trace,      // a trace alone that `stoker profile` wrote: the recipe is not known
    pytorch,        // a watched program with torch's DataLoader, or its own
    stoker_loader,  // a watched program with stoker.Loader
    torch_trace,    // a trace of torch.profiler
};

// A factor of throughput: 1.3 means 30 % more samples a second. Rules give that of the steps; diagnose() makes it that
// of the whole run, with evaluations and checkpoints.
struct Gain {
    double low = 1;
    double expected = 1;
    double high = 1;
};

// Samples a second of a watched program, with the loader that it has and with stoker.Loader.
struct LoaderOffer {
    double now = 0;
    double loader = 0;  // stoker.Loader alone
    double with_it = 0;
    bool is_best = false;  // it gains more than the rule's own remedy
};

// What a rule found, as numbers: what the words about it need besides the facts of the run. A rule fills what its rows
// in advice/ name.
struct FindingFacts {
    std::string_view variant = {};  // of the finding, where the rule has several: "graphs"
    double share = 0;               // of the time, or of the memory
    double part = 0;                // another share
    double times = 0;               // how often in a step
    std::int64_t count = 0;
    std::int64_t wanted = 0;  // what should be instead of what is
    double ms = 0;
    double usual_ms = 0;  // of other ranks
    double lost_ms = 0;
    std::string place = {};  // a line of the program, a phase, shapes
    std::optional<LoaderOffer> offer = {};
};

// A rule gives severity, evidence, gain, confidence and facts; diagnose() fills the rest.
struct Finding {
    std::string rule = {};  // the id of the rule: "few-workers"
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
    FindingFacts facts = {};

    // Evidence, where it was measured.
    void add(const char* name, std::optional<double> value) {
        if (value) {
            evidence.push_back({name, *value});
        }
    }
};

struct Verdict {
    std::string rule = "healthy";
    std::string text = {};
};

struct Diagnosis {
    Audience audience = Audience::recipe;
    // Keys of a recipe are shown before code. Of a program's trace they are for whoever trains it with Stoker.
    bool recipe_first() const { return audience != Audience::torch_trace; }
    Verdict verdict = {};
    // One for each rule. First what explains others (other processes, a throttled or stolen CPU, a straggler), unless
    // it is `info`; then by severity, then by expected gain.
    std::vector<Finding> findings = {};
};

class JudgedRun;    // rules/run_summary.h
struct RunSummary;  // likewise

// What a rule cannot do without: it is asked about ranks that have it.
enum class Needs : std::uint8_t { steps, gpu, profile };

// A row of the table in docs/diagnosis.md.
struct Rule {
    std::string_view id;            // "few-workers"
    std::string_view signal;        // when it fires
    std::string_view prescription;  // what to do
    std::optional<Finding> (*judge)(const JudgedRun& records, const RankRecords& rank, const RunSummary& run);
    Needs needs = Needs::steps;
    bool of_job = false;        // it judges all ranks at once, is given the first, and names the one that it is about
    bool of_whole_run = false;  // its gain is of the whole run already
};

}  // namespace stoker
