// What a run's records say about its host, device, data and settings.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/bridge/torch_cuda.h"
#include "stoker/trace/records.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Of a GPU; empty for the CPU, and in a build without libstoker_torch_cuda.so. Does not wait for the device.
std::optional<DeviceMemory> device_memory(const at::Device& device);
// Of the same: the most bytes that tensors have taken since the process began.
std::optional<std::int64_t> peak_device_bytes(const at::Device& device);

// Reads a few samples of local data for their size and codec.
RunFacts run_facts(const TrainPlan& plan, const Step& step, const Optimizer& optimizer);

}  // namespace stoker
