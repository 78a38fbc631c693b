// Predicts how long a step of several ranks takes and how much memory a rank needs: bytes over links, and how much of
// it the backward pass hides. Formulas and their sources are in bench/results/scaling.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

// A rank's connection, in both directions at once (Hockney's alpha-beta model).
struct Link {
    double bytes_per_second = 0;
    double latency = 0;  // seconds from one rank to another
    // Seconds of computation that the host loses for each byte which it sends, if its cores have no time left: the
    // kernel's and the collective's own work.
    double host = 0;
};

// Seconds of a collective operation on `bytes` on each rank; 0 for one rank. The all-reduce is a ring, or a tree where
// that is faster.
double all_reduce_seconds(double bytes, int ranks, const Link& link);
double reduce_scatter_seconds(double bytes, int ranks, const Link& link);
double all_gather_seconds(double bytes, int ranks, const Link& link);  // `bytes` together

// A gradient, from the moment at which the backward pass has it.
struct GradientReady {
    double at = 0;  // seconds after the backward pass began
    std::int64_t bytes = 0;
};

// A block of the model, whose parameters are gathered together with train.shard = "full".
struct ShardedBlock {
    double share = 1;             // of the time of the model's passes
    std::int64_t parameters = 0;  // bytes, without buffers
    std::int64_t gradients = 0;   // bytes
};

// A rank's step as one process does it, in seconds.
struct RankStep {
    double forward = 0;
    double backward = 0;
    double update = 0;
    std::int64_t micro_batches = 1;               // each with one forward and backward pass
    std::vector<GradientReady> gradients = {};    // in the order in which they are ready
    std::vector<std::int64_t> synced_norms = {};  // channels of each batch norm that the ranks sync
    std::vector<std::int64_t> tensor_sums = {};   // bytes of each sum over the ranks of one copy, in a micro-batch
    std::vector<ShardedBlock> blocks = {};        // in the order of the forward pass; for Shard::full

    double compute() const { return static_cast<double>(micro_batches) * (forward + backward) + update; }
};

enum class Shard { none, optimizer, full };  // train.shard

struct Distribution {
    int ranks = 1;
    int tensor = 1;  // of them share one copy of the model; 1 for Shard::full
    Shard shard = Shard::none;
    double gradient_scale = 1;  // sent bytes per byte of a gradient: 0.5 compressed

    int copies() const { return ranks / tensor; }
};

struct RankStepCost {
    double compute = 0;
    double communication = 0;  // as if nothing else happened
    double exposed = 0;        // the part that the rank waits for
    double host = 0;           // by which the communication that it does not wait for lengthens the computation
    double sent = 0;           // bytes that the rank sends in rings

    double step() const { return compute + host + exposed; }
    double efficiency() const { return step() > 0 ? compute_alone / step() : 1; }
    double compute_alone = 0;  // of one rank without others
};

RankStepCost predict_step(const RankStep& rank, const Distribution& how, const Link& link);

// Bytes of the buckets in which c10d's reducer sends gradients, with the time at which each is full.
std::vector<GradientReady> bucket_gradients(std::span<const GradientReady> gradients);

// Bytes that a rank holds.
struct RankMemory {
    std::int64_t parameters = 0;
    std::int64_t gradients = 0;
    std::int64_t optimizer = 0;
    std::int64_t average = 0;      // train.ema
    std::int64_t buffers = 0;      // of communication
    std::int64_t activations = 0;  // of a micro-batch, with its inputs

    std::int64_t sum() const { return parameters + gradients + optimizer + average + buffers + activations; }
};

// `alone`: of one process, with the rank's own micro-batch and its own slices of the model. `blocks`: as in RankStep.
RankMemory divide_memory(const RankMemory& alone, const Distribution& how, std::span<const ShardedBlock> blocks = {});

}  // namespace stoker
