#include "stoker/profile/profile_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stoker/profile/step_profiler.h"

namespace stoker {
namespace {

// The interrupt of a run whose schedule is done: no signal has this number.
constexpr int kDone = 1000;

// The class of torch.optim.
std::string optimizer_class(const std::string& name) {
    return name == "sgd" ? "SGD" : name == "adam" ? "Adam" : name == "adamw" ? "AdamW" : name;
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
    run.result = trainer.fit({.on_step = on_step, .interrupt = &stop});
    run.result.interrupted = run.result.interrupted && run.result.signal != kDone;  // on this rank or another
    run.profile = profiler.finish();
    run.profile.rank = trainer.group().rank();
    run.profile.world_size = trainer.group().size();
    if (!trainer.group().alone()) {
        run.profile.backend = trainer.device().is_cuda() ? "nccl" : "gloo";
    }
    return run;
}

}  // namespace stoker
