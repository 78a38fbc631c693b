#include "stoker/diagnose/advice/advice.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/pluralize.h"
#include "stoker/diagnose/advice/tables.h"
#include "stoker/diagnose/rules/optimizer_kernel.h"
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
            return {recipe_rows(), everyones_rows()};
        case Audience::own_trace:
            return {keyless_rows(), recipe_rows(), everyones_rows()};
        case Audience::pytorch:
            return {pytorch_rows(), everyones_rows()};
        case Audience::stoker_loader:
            return {stoker_loader_rows(), pytorch_rows(), everyones_rows()};
        case Audience::torch_trace:
            break;
    }
    return {everyones_rows()};
}

std::string first_of(const std::vector<std::span<const Row>>& tables, Words Row::*column, const Case& c) {
    std::string text;
    for (std::size_t i = 0; i < tables.size() && text.empty(); ++i) {
        text = words_of(tables[i], column, c);
    }
    return text;
}

// Those that the recipe does not have already.
std::vector<RecipeChange> changes_of(const Case& c) {
    std::vector<RecipeChange> changes;
    for (const Key& key : recipe_keys()) {
        const std::string value = is_for(key, c.finding) ? key.value(c) : "";
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

std::string filled(std::string_view text, const Case& c) {
    const FindingFacts& facts = c.finding.facts;
    const RunFacts& run = c.rank.facts;
    const auto percent = [](double share) { return 100 * share; };
    const int workers = useful_workers(c.run);
    return fmt::format(
        fmt::runtime(text), fmt::arg("share", percent(facts.share)), fmt::arg("part", percent(facts.part)),
        fmt::arg("times", facts.times), fmt::arg("count", facts.count), fmt::arg("wanted", facts.wanted),
        fmt::arg("ms", facts.ms), fmt::arg("us", 1e3 * facts.ms), fmt::arg("usual_ms", facts.usual_ms),
        fmt::arg("lost_ms", facts.lost_ms), fmt::arg("place", facts.place),
        fmt::arg("at_place", facts.place.empty() ? "" : " at " + facts.place),
        // Of the loader, for whoever waits for it.
        fmt::arg("wait", percent(c.run.input_wait())), fmt::arg("start", percent(c.run.start_share)),
        fmt::arg("core_wait", percent(c.run.core_wait_share)),
        fmt::arg("idle", percent(c.run.blocked_share().value_or(0))), fmt::arg("read", percent(read_share(c.run))),
        fmt::arg("decode", percent(decode_share(c.run))), fmt::arg("augment", percent(augment_share(c.run))),
        fmt::arg("workers", run.data.workers.value_or(0)), fmt::arg("useful", workers),
        fmt::arg("useful_workers", pluralize(workers, "worker")),
        fmt::arg("loader_workers", pluralize(run.data.workers.value_or(0), "loader worker")),
        fmt::arg("queue", pluralize(run.data.prefetch.value_or(0), "batch")), fmt::arg("loader_place", run.data.place),
        fmt::arg("cores", c.run.cores.value_or(0)), fmt::arg("free_cores", c.run.free_cores().value_or(0)),
        fmt::arg("busy", saturated(c.run) ? " All cores are busy: more workers will not help." : ""),
        // Of the training.
        fmt::arg("rank", run.rank), fmt::arg("steps", c.run.steps), fmt::arg("devices", run.device.count),
        fmt::arg("device", run.device.type), fmt::arg("batch_size", run.train.batch_size.value_or(0)),
        fmt::arg("micro_batches", pluralize(std::max(1, run.train.accumulate.value_or(1)), "micro-batch")),
        fmt::arg("precision", run.train.precision), fmt::arg("threads", run.train.threads.value_or(1)),
        fmt::arg("thread_slowdown", 1 / thread_speedup(c.rank)),
        fmt::arg("half_slowdown", 1 / run.device.half_speedup.value_or(1)),
        fmt::arg("bf16_speedup", run.device.bf16_speedup.value_or(1)), fmt::arg("kernel", faster_kernel(c.rank)),
        fmt::arg("optimizer", run.train.optimizer.empty() ? "AdamW" : run.train.optimizer));
}

std::string words_of(std::span<const Row> rows, Words Row::*column, const Case& c) {
    std::string text;
    for (std::size_t i = 0; i < rows.size() && text.empty(); ++i) {
        text = is_for(rows[i], c.finding) && rows[i].*column ? (rows[i].*column)(c) : "";
    }
    return text;
}

void advise(Finding& finding, const JudgedRun& run, Audience audience) {
    const RankRecords& rank = run.rank(finding.rank);
    const Case c{.finding = finding, .records = run, .rank = rank, .run = run.summary(rank)};
    const std::vector<std::span<const Row>> tables = tables_of(audience);
    const bool watched = audience == Audience::pytorch || audience == Audience::stoker_loader;
    finding.text = first_of(tables, &Row::text, c) + offer_text(c);
    std::string code = has_recipe(audience) ? words_of(keyless_rows(), &Row::code, c) : "";
    if (!watched && (code.empty() || audience != Audience::own_trace)) {
        finding.fix.recipe = changes_of(c);  // also for a trace of a program: a recipe may train it
    }
    if (code.empty() || !finding.fix.recipe.empty()) {
        code = first_of(tables, &Row::code, c);
    }
    const std::string place = code.empty() ? "" : first_of(tables, &Row::place, c);
    finding.fix.code = with_offer(c, place.empty() ? code : fmt::format("# {}\n{}", place, code));
}

Verdict too_short_verdict(const JudgedRun& run, Audience audience, bool impression) {
    if (run.kind == "trace") {
        return {.rule = "too-short",
                .text =
                    "No operator was recorded: nothing can be judged. Profile some steps with torch.profiler and "
                    "ProfilerActivity.CPU, and give the file that it writes."};
    }
    const std::size_t steps = run.ranks.empty() ? 0 : run.ranks.front().steps.size();
    if (!has_recipe(audience) && steps == 0) {
        return {.rule = "too-short",
                .text =
                    "No optimizer of torch made a step in the watched thread. Other threads, processes that the "
                    "program starts, and updates by hand are not seen. Start several processes with torchrun. For "
                    "another thread put `with stoker.watch():` around the loop there, and start the program without "
                    "`-m stoker watch`."};
    }
    return {.rule = "too-short",
            .text = fmt::format("{} recorded: too few to judge. Train for some seconds more.{}",
                                steps == 0   ? "No step was"
                                : steps == 1 ? "1 step was"
                                             : fmt::format("{} steps were", steps),
                                impression ? " What follows is a first impression." : "")};
}

}  // namespace stoker
