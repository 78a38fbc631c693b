#include "stoker/profile/profile_run.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/profile/step_profiler.h"
#include "stoker/trace/records_json.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

// The interrupt of a run whose schedule is done: no signal has this number.
constexpr int kDone = 1000;

// The class of torch.optim.
std::string optimizer_class(const std::string& name) {
    return name == "sgd" ? "SGD" : name == "adam" ? "Adam" : name == "adamw" ? "AdamW" : name;
}

// The profiler slows steps down, short ones most. The steps without it speak for the run, less the first ones, in which
// buffers are allocated, batches wait ready and libraries choose their algorithms.
void keep_plain_steps(const ProfileSchedule& schedule, std::vector<StepEntry>& steps) {
    constexpr std::int64_t kFirst = 3;
    constexpr std::ptrdiff_t kEnough = 5;
    std::vector<StepEntry> plain;
    std::ranges::copy_if(steps, std::back_inserter(plain), [&](const StepEntry& step) {
        return step.step > kFirst && schedule.at(step.step - 1) == ProfileSchedule::Action::none;
    });
    if (std::ssize(plain) >= kEnough) {
        steps = std::move(plain);
    }
}

RunRecords records_of(const std::vector<std::string>& lines, const std::string& recipe) {
    RunRecords records;
    for (const std::string& line : lines) {
        if (const std::string problem = add_record(line, records); !problem.empty()) {
            throw InternalError({.where = "profile", .expected = "records of the run", .got = problem});
        }
    }
    records.recipe = recipe_keys(recipe, "the recipe");
    if (records.ranks.empty()) {
        records.ranks.emplace_back();
    }
    return records;
}

// A line of several ranks has a record of each.
void add_lines(std::string_view text, std::vector<std::string>& lines) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

}  // namespace

Recipe recipe_to_profile(Recipe recipe, const ProfileSchedule& schedule) {
    recipe.train.epochs = std::max(recipe.train.epochs, schedule.steps());  // an epoch has at least one step
    return recipe;
}

ProfiledRun profile_run(Trainer& trainer, const Recipe& recipe, const ProfileRunOptions& options) {
    StepProfiler profiler(
        trainer.account(), trainer.train_loader(),
        {.schedule = options.schedule,
         .kineto = {.cuda = trainer.device().is_cuda(), .stacks = options.stacks, .modules = options.stacks},
         .optimizer = optimizer_class(recipe.optimizer.name)});
    std::atomic<int> stop = 0;
    const auto on_step = [&](const Progress& at) {
        if (profiler.step_done()) {
            stop = kDone;
        } else if (options.interrupt != nullptr && options.interrupt->load() != 0) {
            stop = options.interrupt->load();
        }
        if (options.on_step) {
            options.on_step(at);
        }
    };
    profiler.begin();
    ProfiledRun run;
    run.result = trainer.fit({.on_step = on_step,
                              .on_record = [&](const std::string& text) { add_lines(text, run.lines); },
                              .interrupt = &stop});
    run.result.interrupted = run.result.interrupted && run.result.signal != kDone;  // on this rank or another
    run.profile = profiler.finish();
    run.profile.rank = trainer.group().rank();
    run.profile.world_size = trainer.group().size();
    if (!trainer.group().alone()) {
        run.profile.backend = trainer.device().is_cuda() ? "nccl" : "gloo";
    }
    run.recipe = recipe_to_toml(recipe);
    run.records = records_of(run.lines, run.recipe);
    for (RankRecords& rank : run.records.ranks) {
        keep_plain_steps(options.schedule, rank.steps);
    }
    return run;
}

}  // namespace stoker
