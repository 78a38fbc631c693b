// The time line of a backward pass: a bucket is sent when it is full and the one before has arrived.
#include "stoker/dist/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stoker/dist/message_sizes.h"

namespace stoker {
namespace {

// The share of the bytes that each rank sends in a ring.
double ring_share(int ranks) {
    return static_cast<double>(ranks - 1) / ranks;
}

double ring_pass(double bytes, int ranks, const Link& link) {
    return ranks <= 1 ? 0 : (ranks - 1) * link.latency + ring_share(ranks) * bytes / link.bytes_per_second;
}

}  // namespace

double reduce_scatter_seconds(double bytes, int ranks, const Link& link) {
    return ring_pass(bytes, ranks, link);
}

double all_gather_seconds(double bytes, int ranks, const Link& link) {
    return ring_pass(bytes, ranks, link);
}

double all_reduce_seconds(double bytes, int ranks, const Link& link) {
    if (ranks <= 1) {
        return 0;
    }
    const double ring = reduce_scatter_seconds(bytes, ranks, link) + all_gather_seconds(bytes, ranks, link);
    const double tree = 2 * (std::ceil(std::log2(ranks)) * link.latency + bytes / link.bytes_per_second);
    return std::min(ring, tree);
}

std::vector<GradientReady> bucket_gradients(std::span<const GradientReady> gradients) {
    std::vector<GradientReady> buckets;
    GradientReady open;
    for (const GradientReady& gradient : gradients) {
        open = {.at = std::max(open.at, gradient.at), .bytes = open.bytes + gradient.bytes};
        if (open.bytes >= (buckets.empty() ? kFirstBucketBytes : kBucketBytes)) {
            buckets.push_back(std::exchange(open, {}));
        }
    }
    if (open.bytes > 0) {
        buckets.push_back(open);
    }
    return buckets;
}

StepCost predict_step(const RankStep& rank, const Distribution& how, const Link& link) {
    StepCost cost{.compute = rank.compute(), .compute_alone = rank.compute()};
    if (how.ranks == 1) {
        return cost;
    }
    double sent = 0;  // when the last bucket has arrived, after the backward pass began
    double bytes = 0;
    for (const GradientReady& bucket : bucket_gradients(rank.gradients)) {
        const double seconds =
            all_reduce_seconds(static_cast<double>(bucket.bytes) * how.gradient_scale, how.copies(), link);
        sent = std::max(sent, bucket.at) + seconds;
        cost.communication += seconds;
        bytes += static_cast<double>(bucket.bytes);
    }
    cost.exposed = std::max(sent - rank.backward, 0.0);
    double waits = 0;  // that nothing hides
    for (const std::int64_t channels : rank.synced_norms) {
        constexpr double kDouble = 8;
        const double forward = kDouble * static_cast<double>(2 * channels + 1);
        const double backward = kDouble * static_cast<double>(2 * channels);
        waits += static_cast<double>(rank.micro_batches) *
                 (all_reduce_seconds(forward, how.copies(), link) + all_reduce_seconds(backward, how.copies(), link));
    }
    for (const std::int64_t sum : rank.tensor_sums) {
        waits +=
            static_cast<double>(rank.micro_batches) * all_reduce_seconds(static_cast<double>(sum), how.tensor, link);
    }
    if (how.shard_optimizer) {
        waits += all_gather_seconds(bytes, how.copies(), link);  // weights have the size of gradients
        cost.compute -= rank.update * ring_share(how.copies());
    }
    cost.communication += waits;
    cost.exposed += waits;
    return cost;
}

RankMemory divide_memory(const RankMemory& alone, const Distribution& how) {
    RankMemory memory = alone;
    if (how.copies() == 1) {
        return memory;
    }
    if (how.gradient_scale < 1) {  // on a slow link all buckets wait in the other type
        memory.buffers += static_cast<std::int64_t>(how.gradient_scale * static_cast<double>(memory.gradients));
    }
    if (how.shard_optimizer) {
        memory.optimizer = (memory.optimizer + how.copies() - 1) / how.copies();
        const std::int64_t chunk = std::min(kGatherBytes, memory.parameters);
        memory.buffers += 2 * chunk + chunk / how.copies();  // Gloo gathers into a copy
    }
    return memory;
}

}  // namespace stoker
