// Findings about a run: rules/ gives evidence and gain; advice/ adds text and fix for the audience.
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

// The reader of the findings: the author of a recipe or of a program, with a run or a trace.
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

// A rule gives severity, evidence, gain and confidence, and what advice/ needs; diagnose() fills the rest.
struct Finding {
    std::string rule = {};  // the id of the rule: "few-workers"
    Severity severity = Severity::info;
    std::string text = {};  // one or two sentences: the problem and the fix
    std::vector<Evidence> evidence = {};
    int rank = 0;                 // the worst one
    std::vector<int> ranks = {};  // all ranks that it is about, ascending; diagnose() fills it
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    Fix fix = {};
    Gain gain = {};
    double confidence = 0.5;  // in [0, 1]
    // For advice/.
    std::string_view variant = {};  // one of several causes that the rule knows: "graphs"
    std::int64_t wanted = 0;        // the value to set: epochs, samples, bytes
    std::string place = {};         // a line of the program, a phase, shapes
    double with_loader = 0;         // samples a second with stoker.Loader; 0: it is not offered
    bool loader_is_best = false;    // it gains more than the rule's own fix

    // Adds a number that may not have been measured.
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
    // Keys of a recipe are shown before code. In a program's trace they are for training it with Stoker.
    bool recipe_first() const { return audience != Audience::torch_trace; }
    Verdict verdict = {};
    // One for each rule. First those that explain others (other processes, a throttled or stolen CPU, a straggler),
    // unless it is `info`; then by severity, then by expected gain.
    std::vector<Finding> findings = {};
};

class RunView;      // rules/run_summary.h
struct RunSummary;  // likewise

// A rule judges only ranks that have this.
enum class Needs : std::uint8_t { steps, gpu, profile };

// A row of the table in docs/diagnosis.md.
struct Rule {
    std::string_view id;            // "few-workers"
    std::string_view signal;        // when it fires
    std::string_view prescription;  // what to do
    std::optional<Finding> (*judge)(const RunView& records, const RankRecords& rank, const RunSummary& run);
    Needs needs = Needs::steps;
    bool of_job = false;        // it judges all ranks at once, is given the first, and names the one that it is about
    bool of_whole_run = false;  // its gain is of the whole run already
};

}  // namespace stoker
