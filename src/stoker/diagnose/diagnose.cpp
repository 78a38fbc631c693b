// Rules judge, ranks that a rule finds alike become one finding, gains become those of the whole run, and who reads
// them is advised. Findings that explain others come first, then severity decides, then the gain; the first finding
// above `info` is the verdict.
#include "stoker/diagnose/diagnose.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "stoker/base/json_depth.h"
#include "stoker/diagnose/advice/advise.h"
#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/phase_sums.h"
#include "stoker/diagnose/rules/rule_families.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCalls = 20;

Json shares_of(const StepRecord& sum) {
    Json account = Json::object();
    for (std::size_t i = 0; i < kPhases; ++i) {
        account[std::string(phase_name(static_cast<Phase>(i)))] = sum.share(static_cast<Phase>(i));
    }
    return account;
}

Json gpu_times_of(const GpuTimes& gpu) {
    Json idle = Json::array();
    for (const GpuTimes::Idle& stream : gpu.idle) {
        idle.push_back({{"stream", stream.stream},
                        {"host_wait_us", stream.host_wait_us},
                        {"kernel_wait_us", stream.kernel_wait_us},
                        {"other_us", stream.other_us}});
    }
    return {{"compute_us", gpu.compute_us},
            {"non_compute_us", gpu.non_compute_us},
            {"idle_us", gpu.idle_us},
            {"idle", idle}};
}

Json gpu_of(const RankRecords& rank) {
    if (!rank.profile || !rank.profile->gpu) {
        return nullptr;
    }
    Json gpu = gpu_times_of(rank.profile->gpu->times);
    gpu["busy"] = rank.profile->gpu->times.busy();
    gpu["hta"] = gpu_times_of(rank.profile->gpu->hta);
    return gpu;
}

// Shares of the loader's workers' time, over all intervals; null where they have no clocks.
Json workers_of(const RankRecords& rank) {
    StageTimes sum;
    for (const IntervalEntry& interval : rank.intervals) {
        sum += interval.workers.value_or(StageTimes{});
    }
    const auto all = std::accumulate(sum.times.begin(), sum.times.end(), std::chrono::nanoseconds{});
    if (all.count() == 0) {
        return nullptr;
    }
    Json shares = Json::object();
    for (std::size_t i = 0; i < kStages; ++i) {
        shares[std::string(stage_name(static_cast<Stage>(i)))] =
            static_cast<double>(sum.times[i].count()) / static_cast<double>(all.count());
    }
    return shares;
}

// Shares of the training thread's time within evaluations; null without one.
Json evaluation_of(const RankRecords& rank) {
    return rank.evaluations.empty() ? Json(nullptr) : shares_of(sum_of_evaluations(rank.evaluations));
}

// Places where a watched program waited for the device, or that a profile found.
Json syncs_of(const RankRecords& rank) {
    Json syncs = Json::array();
    for (const SyncEntry& sync : costly_syncs(rank, kMostCalls)) {
        syncs.push_back({{"place", sync.place}, {"count", sync.count}, {"us", sync.us}});
    }
    return syncs;
}

Json functions_of(const RankRecords& rank) {
    Json functions = Json::array();
    for (const FunctionEntry& function : costly_functions(rank, kMostCalls)) {
        functions.push_back({{"name", function.name},
                             {"place", function.place.empty() ? Json(nullptr) : Json(function.place)},
                             {"count", function.count},
                             {"self_us", function.self_us},
                             {"total_us", function.total_us}});
    }
    return functions;
}

Json operators_of(const RankRecords& rank) {
    Json operators = Json::array();
    for (const OperatorEntry& entry : costly_operators(rank, kMostCalls)) {
        operators.push_back(
            {{"name", entry.name}, {"count", entry.count}, {"self_us", entry.self_us}, {"device_us", entry.device_us}});
    }
    return operators;
}

// Values are TOML; numbers, booleans and quoted strings read the same in JSON.
Json recipe_of(const Fix& fix) {
    if (fix.recipe.empty()) {
        return nullptr;
    }
    Json recipe = Json::object();
    for (const RecipeChange& change : fix.recipe) {
        const Json value = parse_json<Json>(change.value);
        recipe[change.key] = value.is_discarded() ? Json(change.value) : value;
    }
    return recipe;
}

Json finding_of(const Finding& finding) {
    Json evidence = Json::object();
    for (const Evidence& fact : finding.evidence) {
        evidence[fact.name] = fact.value;
    }
    return {{"rule", finding.rule},
            {"severity", severity_name(finding.severity)},
            {"text", finding.text},
            {"rank", finding.rank},
            {"ranks", finding.ranks},
            {"evidence", evidence},
            {"steps", {finding.first_step, finding.last_step}},
            {"fix",
             {{"recipe", recipe_of(finding.fix)},
              {"code", finding.fix.code.empty() ? Json(nullptr) : Json(finding.fix.code)}}},
            {"gain", {{"low", finding.gain.low}, {"expected", finding.gain.expected}, {"high", finding.gain.high}}},
            {"confidence", finding.confidence}};
}

// What takes the machine from the run, and a rank that others wait for, come before the reasons that follow from them.
bool explains_others(const Finding& finding) {
    constexpr std::array<std::string_view, 5> kFirst = {"other-processes", "cpu-throttled", "gpu-throttled",
                                                        "cpu-steal", "straggler"};
    return finding.severity != Severity::info && std::ranges::find(kFirst, finding.rule) != kFirst.end();
}

std::tuple<bool, Severity, double> urgency(const Finding& finding) {
    return {explains_others(finding), finding.severity, finding.gain.expected};
}

bool above_info(const Finding& finding) {
    return finding.severity != Severity::info;
}

bool too_short(const RunView& run) {
    if (run.kind == "trace") {
        return std::ranges::all_of(run.ranks, [&](const RankRecords& rank) {
            const bool has_gpu = rank.profile && rank.profile->gpu;
            return rank.steps.empty() || (!has_gpu && run.summary(rank).of(Phase::unmeasured) >= 1);
        });
    }
    return std::ranges::none_of(run.ranks, [&](const RankRecords& rank) {
        return (rank.profile && !rank.steps.empty()) || run.summary(rank).long_enough();
    });
}

bool operators_only(const RunView& run) {
    return std::ranges::all_of(run.ranks,
                               [](const RankRecords& rank) { return rank.profile && rank.profile->operators_only; });
}

Verdict verdict_of(const std::vector<Finding>& findings) {
    if (findings.empty()) {
        return {.rule = "healthy", .text = "Nothing is wrong: no rule found time to win."};
    }
    if (!above_info(findings.front())) {
        return {.rule = "healthy", .text = "Nothing is wrong; below is what could still be gained."};
    }
    std::string text = findings.front().text;
    const auto own = std::ranges::find_if(
        findings, [](const Finding& finding) { return above_info(finding) && !explains_others(finding); });
    if (explains_others(findings.front()) && own != findings.end()) {  // what can be changed without other people
        text += " Apart from that: " + own->text;
    }
    return {.rule = findings.front().rule, .text = text};
}

// The share of a rank's time in steps; the rest are evaluations, and checkpoints between epochs.
double share_of_steps(const RankRecords& rank) {
    const StepRecord steps = sum_of_steps(rank.steps);
    std::chrono::nanoseconds beside{};
    for (const EvaluationEntry& evaluation : rank.evaluations) {
        beside += evaluation.host.total();
    }
    std::chrono::nanoseconds all = steps.total() + beside;
    if (rank.total) {
        const auto in_steps = steps.times[static_cast<std::size_t>(Phase::checkpoint)];
        const auto checkpoints = rank.total->times[static_cast<std::size_t>(Phase::checkpoint)];
        beside = rank.total->times[static_cast<std::size_t>(Phase::evaluate)] + std::max(checkpoints - in_steps, {});
        all = rank.total->total();
    }
    return all.count() > 0 ? 1 - static_cast<double>(beside.count()) / static_cast<double>(all.count()) : 1;
}

// The gain of the whole run if only `share` of it is sped up.
Gain of_whole_run(const Gain& gain, double share) {
    const auto factor = [&](double part) { return part > 1 ? 1 / (1 - share * (1 - 1 / part)) : part; };
    return {.low = factor(gain.low), .expected = factor(gain.expected), .high = factor(gain.high)};
}

// The findings of a rule, by rank. Steps are those of the summary, unless the rule sets the first one.
std::vector<Finding> findings_of(const Rule& rule, const RunView& run) {
    std::vector<Finding> found;
    for (const RankRecords& rank : run.ranks) {
        const bool can_judge = rule.needs == Needs::gpu       ? rank.facts.device.type == "cuda"
                               : rule.needs == Needs::profile ? rank.profile.has_value()
                                                              : true;
        if (auto finding = can_judge ? rule.judge(run, rank, run.summary(rank)) : std::nullopt) {
            finding->rule = rule.id;
            finding->rank = rule.of_job ? finding->rank : rank.facts.rank;
            const RankRecords& about = run.rank(finding->rank);
            const RunSummary& summary = run.summary(about);
            finding->first_step = finding->first_step > 0 ? finding->first_step : summary.first_step;
            finding->last_step = summary.last_step;
            finding->gain = rule.of_whole_run ? finding->gain : of_whole_run(finding->gain, share_of_steps(about));
            found.push_back(*std::move(finding));
        }
        if (rule.of_job) {
            break;
        }
    }
    return found;
}

// One finding for all ranks: the most urgent one, which names the others.
Finding folded(const std::vector<Finding>& found) {
    Finding worst = *std::ranges::max_element(found, {}, urgency);
    for (const Finding& finding : found) {
        worst.ranks.push_back(finding.rank);
    }
    std::ranges::sort(worst.ranks);
    return worst;
}

}  // namespace

std::string_view severity_name(Severity severity) {
    constexpr std::array<std::string_view, 3> kNames = {"info", "warn", "critical"};
    return kNames[static_cast<std::size_t>(severity)];
}

std::span<const Rule> rules() {
    static const std::vector<Rule> kRules = [] {
        std::vector<Rule> all;
        for (const auto family :
             {input_rules(), host_rules(), run_rules(), copy_rules(), device_rules(), device_memory_rules(),
              gpu_clock_rules(), operator_rules(), python_rules(), rank_rules()}) {
            all.insert(all.end(), family.begin(), family.end());
        }
        return all;
    }();
    return kRules;
}

Diagnosis diagnose(const RunRecords& records) {
    Diagnosis diagnosis{.audience = audience_of(records)};
    const RunView run(records);
    const bool is_short = too_short(run);
    for (const Rule& rule : rules()) {
        if (const std::vector<Finding> found = findings_of(rule, run); !found.empty()) {
            Finding& finding = diagnosis.findings.emplace_back(folded(found));
            finding.severity = is_short ? Severity::info : finding.severity;
            advise(finding, run, diagnosis.audience);
        }
    }
    std::ranges::stable_sort(diagnosis.findings, std::greater(), urgency);
    if (is_short) {
        diagnosis.verdict = too_short_verdict(run, diagnosis.audience, !diagnosis.findings.empty());
    } else if (std::ranges::none_of(diagnosis.findings, above_info) && operators_only(run)) {
        diagnosis.verdict = no_ranges_verdict();
    } else {
        diagnosis.verdict = verdict_of(diagnosis.findings);
    }
    return diagnosis;
}

std::string to_json(const RunRecords& records, const Diagnosis& diagnosis) {
    Json ranks = Json::array();
    for (const RankRecords& rank : records.ranks) {
        const JudgedSteps judged = judged_steps(rank);
        Json json = {{"rank", rank.facts.rank},
                     {"steps", rank.steps.size()},
                     {"judged_steps", {judged.first_step, judged.last_step}},
                     {"account", shares_of(judged.account)},
                     {"workers", workers_of(rank)},
                     {"evaluation", evaluation_of(rank)},
                     {"syncs", syncs_of(rank)},
                     {"gpu", gpu_of(rank)}};
        if (rank.functions) {
            json["functions"] = functions_of(rank);
            json["function_steps"] = rank.functions->steps;
        }
        if (rank.profile) {
            json["operators"] = operators_of(rank);
            json["operator_steps"] = rank.profile->steps;
        }
        ranks.push_back(std::move(json));
    }
    Json findings = Json::array();
    for (const Finding& finding : diagnosis.findings) {
        findings.push_back(finding_of(finding));
    }
    const Json json = {{"kind", records.kind},
                       {"ranks", ranks},
                       {"verdict", {{"rule", diagnosis.verdict.rule}, {"text", diagnosis.verdict.text}}},
                       {"findings", findings},
                       {"problems", records.problems}};
    return json_text(json, 2);
}

}  // namespace stoker
