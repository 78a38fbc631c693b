// What a run's records say about its host, device, data and settings.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/bridge/device.h"
#include "stoker/trace/records.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/step.h"

namespace stoker {

// The most bytes that tensors on a GPU have taken since the process began; empty where device_memory() is. Does not
// wait for the device.
std::optional<std::int64_t> peak_device_bytes(const at::Device& device);

// Reads a few samples of local data for their size and codec.
RunFacts run_facts(const TrainPlan& plan, const Step& step, const Optimizer& optimizer);

}  // namespace stoker
