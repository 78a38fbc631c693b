#include "stoker/diagnose/advice/advise.h"

#include <algorithm>
#include <fmt/args.h>
#include <fmt/format.h>

#include "stoker/base/pluralize.h"
#include "stoker/diagnose/advice/tables.h"
#include "stoker/diagnose/rules/wait_cause.h"

namespace stoker {
namespace {

bool has_recipe(Audience audience) {
    return audience == Audience::recipe || audience == Audience::own_trace;
}

// The most specific first.
std::vector<std::span<const Row>> tables_of(Audience audience) {
    switch (audience) {
        case Audience::recipe:
            return {kRecipe, kEveryone};
        case Audience::own_trace:
            return {kWithoutKey, kRecipe, kEveryone};
        case Audience::pytorch:
            return {kPytorch, kEveryone};
        case Audience::stoker_loader:
            return {kStokerLoader, kPytorch, kEveryone};
        case Audience::torch_trace:
            break;
    }
    return {kEveryone};
}

std::string first_of(const std::vector<std::span<const Row>>& tables, Template Row::*column, const Case& c) {
    std::string text;
    for (std::size_t i = 0; i < tables.size() && text.empty(); ++i) {
        text = text_of(tables[i], column, c);
    }
    return text;
}

// Those that the recipe does not have already.
std::vector<RecipeChange> changes_of(const Case& c) {
    std::vector<RecipeChange> changes;
    for (const Key& key : kRecipeKeys) {
        const std::string value = c.is_of(key.of) ? key.value(c) : "";
        const bool quoted = value.starts_with('"');
        if (!value.empty() && !c.records.sets(key.key, quoted ? value.substr(1, value.size() - 2) : value)) {
            changes.push_back({key.key, value});
        }
    }
    return changes;
}

}  // namespace

Audience audience_of(const RunRecords& records) {
    const RunFacts facts = records.ranks.empty() ? RunFacts{} : records.ranks.front().facts;
    if (facts.writer == kPythonWriter) {
        return facts.data.loader == "stoker.Loader" ? Audience::stoker_loader : Audience::pytorch;
    }
    return records.kind != "trace"      ? Audience::recipe
           : facts.writer == kOwnWriter ? Audience::own_trace
                                        : Audience::torch_trace;
}

double Case::evidence(std::string_view name) const {
    const auto found = std::ranges::find(finding.evidence, name, &Evidence::name);
    return found == finding.evidence.end() ? 0 : found->value;
}

std::string filled(std::string_view text, const Case& c) {
    fmt::dynamic_format_arg_store<fmt::format_context> fields;
    const auto add = [&](const char* name, const auto& value) { fields.push_back(fmt::arg(name, value)); };
    for (const Evidence& fact : c.finding.evidence) {
        add(fact.name.c_str(), fact.name.find("share") != std::string::npos ? 100 * fact.value : fact.value);
    }
    const RunFacts& facts = c.rank.facts;
    const int workers = facts.data.workers.value_or(0);
    add("variant", c.finding.variant);
    add("wanted", c.finding.wanted);
    add("place", c.finding.place);
    add("at_place", c.finding.place.empty() ? "" : " at " + c.finding.place);
    add("with_loader", c.finding.with_loader);
    add("idle", 100 * c.run.blocked_share().value_or(0));
    add("useful", useful_workers(c.run));
    add("useful_workers", pluralize(useful_workers(c.run), "worker"));
    add("loader_workers", pluralize(workers, "loader worker"));
    add("queue", pluralize(facts.data.prefetch.value_or(0), "batch"));
    add("loader_place", facts.data.place);
    add("free_cores", c.run.free_cores().value_or(0));
    add("busy", saturated(c.run) ? " All cores are busy: more workers will not help." : "");
    add("steps", c.run.steps);
    add("device", facts.device.type);
    add("samples", facts.train.batch_size.value_or(0));
    add("parts", pluralize(micro_batches(c.rank), "micro-batch"));
    add("precision", facts.train.precision);
    add("threads", facts.train.threads.value_or(1));
    add("thread_slowdown", 1 / thread_speedup(c.rank));
    add("half_slowdown", 1 / facts.device.half_speedup.value_or(1));
    add("optimizer", facts.train.optimizer.empty() ? "AdamW" : facts.train.optimizer);
    return fmt::vformat(text, fields);
}

std::string text_of(std::span<const Row> rows, Template Row::*column, const Case& c) {
    std::string text;
    for (std::size_t i = 0; i < rows.size() && text.empty(); ++i) {
        text = c.is_of(rows[i].of) && rows[i].*column ? (rows[i].*column)(c) : "";
    }
    return text;
}

void advise(Finding& finding, const RunView& run, Audience audience) {
    const RankRecords& rank = run.rank(finding.rank);
    const Case c{.finding = finding, .records = run, .rank = rank, .run = run.summary(rank)};
    const std::vector<std::span<const Row>> tables = tables_of(audience);
    const bool watched = audience == Audience::pytorch || audience == Audience::stoker_loader;
    finding.text = first_of(tables, &Row::text, c) + offer_text(c);
    std::string code = has_recipe(audience) ? text_of(kWithoutKey, &Row::code, c) : "";
    if (!watched && (code.empty() || audience != Audience::own_trace)) {
        finding.fix.recipe = changes_of(c);  // also for a trace of a program: a recipe may train it
    }
    if (code.empty() || !finding.fix.recipe.empty()) {
        code = first_of(tables, &Row::code, c);
    }
    const std::string place = code.empty() ? "" : first_of(tables, &Row::place, c);
    finding.fix.code = with_offer(c, place.empty() ? code : fmt::format("# {}\n{}", place, code));
}

Verdict too_short_verdict(const RunView& run, Audience audience, bool impression) {
    if (run.kind == "trace") {
        return {.rule = "too-short",
                .text =
                    "No operator was recorded: nothing can be judged. Profile some steps with torch.profiler and "
                    "ProfilerActivity.CPU, and give the file that it writes."};
    }
    const std::size_t steps = run.ranks.empty() ? 0 : run.ranks.front().steps.size();
    if (!has_recipe(audience) && steps == 0) {
        return {
            .rule = "too-short",
            .text =
                "No optimizer of torch made a step in the watched thread. Other threads, processes that the program "
                "starts, and updates by hand are not seen. Start several processes with torchrun. For another thread "
                "put `with stoker.watch():` around the loop there, and start the program without `-m stoker watch`."};
    }
    return {.rule = "too-short",
            .text = fmt::format("{} recorded: too few to judge. Train for some seconds more.{}",
                                steps == 0   ? "No step was"
                                : steps == 1 ? "1 step was"
                                             : fmt::format("{} steps were", steps),
                                impression ? " What follows is a first impression." : "")};
}

Verdict no_ranges_verdict() {
    return {.rule = "no-ranges",
            .text =
                "The trace has operators, but neither steps nor ranges, so waits for input and the optimizer cannot be "
                "judged. Mark steps with prof.step() in a profile with a `schedule`; if its activities are chosen one "
                "by one, include \"USER_ANNOTATION\"."};
}

}  // namespace stoker
