// The facts of a run's host, device, data and settings, for its records.
#pragma once

#include "stoker/bridge/device.h"
#include "stoker/records/records.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Reads a few samples of local data for their size and codec.
RunFacts run_facts(const TrainPlan& plan, const Step& step, const Optimizer& optimizer);

}  // namespace stoker
