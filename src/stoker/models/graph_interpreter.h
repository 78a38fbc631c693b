// Runs a plain graph of a .pt2 file: one call of LibTorch's dispatcher for each node.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/graph_program.h"

namespace stoker {

// Returns the program's outputs. A value is released after its last use. Nothing waits for a device, so that a CUDA
// graph can capture the run, and random operators draw from LibTorch's default generator. Throws DataError for another
// number of inputs or results than the program has, and c10::Error.
std::vector<at::Tensor> run_graph(const GraphProgram& program, std::vector<at::Tensor> inputs);

}  // namespace stoker
