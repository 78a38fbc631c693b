#include "stoker/train/run/step_state.h"

#include <algorithm>
#include <iterator>

namespace stoker {

std::vector<NamedTensor> scaler_tensors(const Step& step) {
    return step.scaler() != nullptr ? step.scaler()->state() : std::vector<NamedTensor>();
}

std::vector<NamedTensor> ema_tensors(const Step& step) {
    return step.ema() != nullptr ? step.ema()->state() : std::vector<NamedTensor>();
}

void load_step(const Checkpoint& saved, Optimizer& optimizer, Step& step) {
    std::vector<NamedTensor> of_optimizer;
    std::vector<NamedTensor> of_scaler;
    std::ranges::partition_copy(saved.optimizer, std::back_inserter(of_scaler), std::back_inserter(of_optimizer),
                                [](const NamedTensor& entry) { return entry.name.starts_with("scaler."); });
    optimizer.load(of_optimizer);
    step.load(of_scaler, saved.ema);
}

}  // namespace stoker
