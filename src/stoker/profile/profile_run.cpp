#include "stoker/profile/profile_run.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/profile/step_profiler.h"
#include "stoker/records/records_json.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

// The interrupt of a run whose schedule is done: no signal has this number.
constexpr int kDone = 1000;

// The class of torch.optim.
std::string optimizer_class(const std::string& name) {
    return name == "sgd" ? "SGD" : name == "adam" ? "Adam" : name == "adamw" ? "AdamW" : name;
}

// The profiler slows steps down, short ones most. The steps without it speak for the run, less the first ones of each
// cycle: in those of the run buffers are allocated and libraries choose their algorithms, in those of later cycles the
// profiler writes its events down, and meanwhile the loader has filled its ring. Evaluations after steps with the
// profiler are slowed down as well. All others are marked in `lines`, unless too few are left.
void mark_profiled(const ProfileSchedule& schedule, int prefetch, std::vector<std::string>& lines) {
    constexpr std::int64_t kEnough = 5;
    const std::int64_t first = std::max(3, prefetch + 1);
    std::int64_t plain = 0;
    const auto is_profiled = [&](const RecordLine& line) {
        const bool profiled = schedule.at(line.step - 1) != ProfileSchedule::Action::none;
        if (line.type != "step") {
            return line.type == "evaluation" && profiled;
        }
        const bool speaks = !profiled && (line.step - 1) % schedule.cycle() >= first;
        plain += speaks ? 1 : 0;
        return !speaks;
    };
    std::vector<std::string> marked;
    marked.reserve(lines.size());
    for (const std::string& line : lines) {
        marked.push_back(is_profiled(read_record(line, {})) ? marked_as_profiled(line) : line);
    }
    if (plain >= kEnough) {
        lines = std::move(marked);
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

// If training failed, its error comes first: the device may be out of order, so that its events are lost.
void finish(StepProfiler& profiler, ProfiledRun& run) {
    try {
        run.profile = profiler.finish();
    } catch (...) {
        std::rethrow_exception(run.failure ? run.failure : std::current_exception());
    }
    if (run.failure && run.profile.windows.empty()) {
        std::rethrow_exception(run.failure);
    }
}

// What fits into a quarter of the memory that is left.
std::int64_t most_ops() {
    return std::min(kMostRecordedOps, static_cast<std::int64_t>(memory_left() / 4) / kBytesOfRecordedOp);
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
         .optimizer = optimizer_class(recipe.optimizer.name),
         .most_ops = most_ops()});
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
    try {
        run.result = trainer.fit({.on_step = on_step,
                                  .on_record = [&](const std::string& text) { add_lines(text, run.lines); },
                                  .interrupt = &stop});
    } catch (...) {
        run.failure = std::current_exception();
    }
    run.result.interrupted = run.result.interrupted && run.result.signal != kDone;  // on this rank or another
    finish(profiler, run);
    run.nodes = event_tree(run.profile);
    run.profile.rank = trainer.group().rank();
    run.profile.world_size = trainer.group().size();
    if (!trainer.group().alone()) {
        run.profile.backend = trainer.group().uses_nccl() ? "nccl" : "gloo";
    }
    run.recipe = recipe_to_toml(recipe);
    mark_profiled(options.schedule, trainer.train_loader().prefetch(), run.lines);
    run.records = records_of(run.lines, run.recipe);
    return run;
}

}  // namespace stoker
