#include "engine/tune/open_trial.h"

#include <memory>

#include "cli/engine_exec.h"
#include "cli/terminal/subprocess.h"
#include "stoker/tune/trial_process.h"

namespace stoker::cli {

OpenTrial trial_opener(const std::string& recipe_path, const std::atomic<int>& stop) {
    return [recipe_path, &stop, patience = std::make_shared<Patience>(),
            opened = 0](const TrialSpec& spec) mutable -> std::unique_ptr<Trial> {
        std::vector<std::string> command = {program_path().string(), kTrial.name, recipe_path};
        for (const std::string& set : spec.sets) {
            command.insert(command.end(), {"--set", set});
        }
        command.insert(command.end(), {"--samples", std::to_string(spec.samples)});
        // In another order than the other trials: none reads what another has just brought into the page cache.
        command.insert(command.end(), {"--seed-offset", std::to_string(opened++)});
        if (spec.probe) {
            command.emplace_back("--probe");
        }
        if (spec.single_tensor) {
            command.emplace_back("--single-tensor");
        }
        return std::make_unique<TrialProcess>(std::move(command), stop, patience);
    };
}

}  // namespace stoker::cli
