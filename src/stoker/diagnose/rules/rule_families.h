// The families of rules: one file for each. A rule reads records and nothing else.
#pragma once

#include <span>

#include "stoker/diagnose/finding.h"

namespace stoker {

std::span<const Rule> input_rules();          // wait: storage, decoding, workers, prefetch, cache
std::span<const Rule> host_rules();           // cores, memory, swap, throttling
std::span<const Rule> run_rules();            // evaluation, checkpoints, batch size, slow steps
std::span<const Rule> copy_rules();           // copies to the GPU
std::span<const Rule> device_rules();         // syncs, launches, precision, an idle GPU
std::span<const Rule> device_memory_rules();  // GPU memory
std::span<const Rule> gpu_clock_rules();      // a GPU that heat or a fault slows
std::span<const Rule> operator_rules();       // the operators of a profile
std::span<const Rule> python_rules();         // loops and precision of programs that `python -m stoker watch` ran
std::span<const Rule> rank_rules();           // communication, stragglers

}  // namespace stoker
