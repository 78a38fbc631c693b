// Kernels that show which code the CPU layer runs, and the faults that it finds.
#pragma once

#include <cstdint>

namespace stoker::testing {

// The sum of each block's 128 values, through shared memory. `forgetful`: without the barrier between its steps.
void block_sums(const int* values, int blocks, int* sums, bool forgetful);
// The sums of each warp's 32 values, by shuffles down and across; counts (warps) of the odd ones, by a vote.
void warp_sums(const int* values, int warps, int* down, int* across, int* odd);
// The prefix sums of each 16 lanes.
void prefix_sums(const int* values, int threads, int* sums);
// A histogram of 8 bins. `careless`: every thread writes its bin's new count as if it were alone in its block.
void histogram(const std::uint8_t* values, int count, int* bins, bool careless);
// out[i] = in[i + 1], also for the last one.
void shift(const float* in, int count, float* out);
// out[i] = in[i], four at a time.
void copy_vectors(const float* in, int count, float* out);
// Waits at a barrier in half of the threads, and in the others for their warp.
void diverge();
// A vote with a mask of lanes that have ended.
void vote_with_the_ended();
// Reads shared memory that nobody wrote.
void read_unwritten(float* out);

}  // namespace stoker::testing
