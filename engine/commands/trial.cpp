// stoker-engine trial: the child process of `tune` and `bench techniques` (engine/tune/trial_server.h). Hidden: it
// talks to TrialProcess, not to people.
#include <signal.h>
#include <sys/prctl.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/terminal/print.h"
#include "engine/commands.h"
#include "engine/tune/trial_data.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/memory_limit.h"
#include "stoker/bridge/out_of_memory.h"
#include "stoker/bridge/torch_error.h"

namespace stoker::cli {
namespace {

struct TrialArguments {
    std::string recipe;
    std::vector<std::string> sets;
    std::int64_t samples = 0;
    std::uint64_t seed_offset = 0;
    bool probe = false;
    bool single_tensor = false;
};

int run(const TrialArguments& options) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_stdout_for_answers();
    try {
        Recipe recipe = read_recipe(options.recipe, options.sets);
        recipe.seed += options.seed_offset;
        recipe.train.mesh = {};  // one process trains the whole model
        const TrialOptions trial{
            .recipe = std::move(recipe),
            .samples = options.samples,
            .probe = options.probe,
            .kernel = options.single_tensor ? OptimizerKernel::single_tensor : OptimizerKernel::fused};
        return options.probe ? serve_probes(trial) : serve_training(trial);
    } catch (const std::exception& error) {
        const std::string reason = error.what();  // LibTorch's has a backtrace below
        const bool memory = is_out_of_memory(error) || dynamic_cast<const OutOfMemory*>(&error) != nullptr ||
                            dynamic_cast<const MemoryError*>(&error) != nullptr;
        const nlohmann::ordered_json failure = {{"error", reason.substr(0, reason.find('\n'))}, {"memory", memory}};
        answer(json_text(failure));
        return 1;
    }
}

}  // namespace

Command add_trial(CLI::App& app) {
    auto options = std::make_shared<TrialArguments>();
    app.group("");
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "data.workers=4");
    add_number(app, "--samples", options->samples, "use at most so many samples; 0: all", 0, std::int64_t{1} << 40);
    add_number(app, "--seed-offset", options->seed_offset, "added to the recipe's seed: another order of the samples",
               std::uint64_t{0}, std::uint64_t{1} << 40);
    app.add_flag("--probe", options->probe, "costs one by one instead of training");
    app.add_flag("--single-tensor", options->single_tensor, "an optimizer without fused kernels");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
