// Partitions a sequence of blocks into stages that take as equally long as possible.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stoker {

// `costs`: of each block, such as seconds of its passes; at least as many as `stages`. Returns the first block of each
// stage; a stage ends where the next begins. No other partition has a faster slowest stage. The same costs give the
// same partition.
std::vector<std::size_t> partition_stages(std::span<const double> costs, std::size_t stages);

// Blocks that belong together, since a stage without trained parameters would have nothing to do: the first block of
// each run of blocks that ends with a trained one. Blocks behind the last trained one belong to the last run.
std::vector<std::size_t> trained_runs(const std::vector<bool>& trained);

// The same as partition_stages, with stages that begin only where a run does; at least as many `runs` as `stages`.
std::vector<std::size_t> partition_runs(std::span<const double> costs, std::span<const std::size_t> runs,
                                        std::size_t stages);

// The sum of the costs of each stage.
std::vector<double> stage_costs(std::span<const double> costs, std::span<const std::size_t> firsts);

}  // namespace stoker
