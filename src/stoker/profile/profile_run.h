// Trains some steps of a recipe under the profiler. Nothing is written: no checkpoint and no run folder.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/profile.h"
#include "stoker/profile/profile_schedule.h"
#include "stoker/records/records.h"
#include "stoker/train/trainer.h"

namespace stoker {

struct ProfileRunOptions {
    ProfileSchedule schedule = {};
    bool stacks = false;  // of TorchScript code, with its modules
    std::function<void(const Progress&)> on_step = nullptr;
    const std::atomic<int>* interrupt = nullptr;  // a value other than 0: stop after this step
};

struct ProfiledRun {
    Profile profile = {};
    std::vector<EventNode> nodes = {};  // event_tree of the profile
    // For the rules: the steps without the profiler, if there are enough of them; the others are marked in `lines`.
    // add_trace (profile_files.h) adds the profile.
    RunRecords records = {};
    std::vector<std::string> lines = {};  // of metrics.jsonl, all steps
    std::string recipe = {};              // TOML
    TrainResult result = {};              // `interrupted` only if `interrupt` asked for it
    std::exception_ptr failure = {};  // why training ended before the schedule did; the profile has what was recorded
};

// The recipe with enough epochs for the schedule.
Recipe recipe_to_profile(Recipe recipe, const ProfileSchedule& schedule);

// `trainer` was made from the recipe_to_profile of `recipe`, which the records name: advice depends on its epochs.
// Throws what Trainer::fit throws before a step is recorded.
ProfiledRun profile_run(Trainer& trainer, const Recipe& recipe, const ProfileRunOptions& options);

}  // namespace stoker
