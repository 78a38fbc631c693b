// The time lines of a step: a bucket of gradients is sent when it is full and the one before has arrived, and a block
// of sharded parameters is gathered while the block before it is computed.
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

// A link's traffic in a step.
struct Traffic {
    Link link;
    double seconds = 0;
    double sent = 0;  // bytes

    double all_reduce(double bytes, int ranks) {
        return add(all_reduce_seconds(bytes, ranks, link), 2 * ring_share(ranks) * bytes);
    }
    double all_gather(double bytes, int ranks) {
        return add(all_gather_seconds(bytes, ranks, link), ring_share(ranks) * bytes);
    }
    double reduce_scatter(double bytes, int ranks) {
        return add(reduce_scatter_seconds(bytes, ranks, link), ring_share(ranks) * bytes);
    }

  private:
    double add(double of_one, double bytes) {
        seconds += of_one;
        sent += bytes;
        return of_one;
    }
};

// A backward pass while the link sends, which takes some of the host's time.
class BackwardPass {
  public:
    // A host sends no faster than its cores allow, and keeps a tenth for the pass.
    explicit BackwardPass(const Link& link) : speed_(1 - std::min(link.host * link.bytes_per_second, 0.9)) {}

    // Until `work` seconds of it are done, counted without a link.
    void advance(double work) {
        if (const double slow = (link_free_ - now_) * speed_; now_ < link_free_ && slow < work - done_) {
            done_ += slow;
            now_ = link_free_;
        }
        now_ += std::max(work - done_, 0.0) / (now_ < link_free_ ? speed_ : 1);
        done_ = std::max(done_, work);
    }
    void send(double seconds) { link_free_ = std::max(link_free_, now_) + seconds; }

    double now() const { return now_; }
    double waits() const { return std::max(link_free_ - now_, 0.0); }

  private:
    double speed_;  // of the pass while the link sends
    double now_ = 0;
    double done_ = 0;
    double link_free_ = 0;
};

// Seconds that the forward and the backward pass of a micro-batch take with their gathers and reductions, in the order
// of FullyShardedModel.
double sharded_passes(const RankStep& rank, const Distribution& how, Traffic& traffic) {
    double now = 0;
    double link_free = 0;
    const auto start = [&](double seconds) { return link_free = std::max(link_free, now) + seconds; };
    const auto gather = [&](const ShardedBlock& block) {
        return start(traffic.all_gather(static_cast<double>(block.parameters), how.ranks));
    };
    double gathered = gather(rank.blocks.front());
    for (std::size_t i = 0; i < rank.blocks.size(); ++i) {
        now = std::max(now, gathered);
        if (i + 1 < rank.blocks.size()) {
            gathered = gather(rank.blocks[i + 1]);
        }
        now += rank.blocks[i].share * rank.forward;
    }
    const auto trained = [](const ShardedBlock& block) { return block.gradients > 0; };
    const auto first = static_cast<std::size_t>(std::ranges::find_if(rank.blocks, trained) - rank.blocks.begin());
    double share = 0;  // of the blocks that have a backward pass, which ends at the first trained one
    for (std::size_t i = first; i < rank.blocks.size(); ++i) {
        share += rank.blocks[i].share;
    }
    double reduced = 0;
    for (std::size_t i = rank.blocks.size(); i-- > first;) {  // the last block is still there
        now = std::max(now, gathered);
        if (i > first) {
            gathered = gather(rank.blocks[i - 1]);
        }
        now = std::max(now + rank.blocks[i].share / share * rank.backward, reduced);
        if (trained(rank.blocks[i])) {
            const double bytes = static_cast<double>(rank.blocks[i].gradients) * how.gradient_scale;
            reduced = start(traffic.reduce_scatter(bytes, how.ranks));
        }
    }
    return std::max(now, reduced);
}

// Whole parameters and gradients of blocks, at the moment of a step that has most of them. Gloo gathers into a copy.
std::int64_t unsharded_bytes(std::span<const ShardedBlock> blocks, double gradient_scale) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const ShardedBlock none{.share = 0};
        const ShardedBlock& before = i > 0 ? blocks[i - 1] : none;
        const ShardedBlock& after = i + 1 < blocks.size() ? blocks[i + 1] : none;
        const auto sent = [&](const ShardedBlock& block) {
            return static_cast<std::int64_t>(gradient_scale * static_cast<double>(block.gradients));
        };
        const std::int64_t forward = blocks[i].parameters + 2 * after.parameters;
        const std::int64_t backward = blocks[i].parameters + 2 * before.parameters + blocks[i].gradients + sent(after);
        const std::int64_t packing = 2 * before.parameters + blocks[i].gradients + sent(blocks[i]);
        most = std::max({most, forward, backward, packing});
    }
    return most;
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

RankStepCost predict_step(const RankStep& rank, const Distribution& how, const Link& given) {
    Link link = given;
    if (link.host > 0) {
        link.bytes_per_second = std::min(link.bytes_per_second, 1 / link.host);
    }
    RankStepCost cost{.compute = rank.compute(), .compute_alone = rank.compute()};
    if (how.ranks == 1) {
        return cost;
    }
    Traffic traffic{.link = link};
    const auto micro_batches = static_cast<double>(rank.micro_batches);
    double waits = 0;  // that nothing hides
    for (std::int64_t part = 0; part < rank.micro_batches; ++part) {
        for (const std::int64_t channels : rank.synced_norms) {
            constexpr double kDouble = 8;
            waits += traffic.all_reduce(kDouble * static_cast<double>(2 * channels + 1), how.copies());  // forward
            waits += traffic.all_reduce(kDouble * static_cast<double>(2 * channels), how.copies());      // backward
        }
        for (const std::int64_t sum : rank.tensor_sums) {
            waits += traffic.all_reduce(static_cast<double>(sum), how.tensor);
        }
        if (how.shard == Shard::full) {
            waits += sharded_passes(rank, how, traffic);
        }
    }
    if (how.shard == Shard::full) {
        waits -= micro_batches * (rank.forward + rank.backward);  // which the passes contain
    } else {
        BackwardPass pass(link);
        double bytes = 0;
        for (const GradientReady& bucket : bucket_gradients(rank.gradients)) {
            const double sent = static_cast<double>(bucket.bytes) * how.gradient_scale;
            pass.advance(bucket.at);
            pass.send(traffic.all_reduce(sent, how.copies()));
            bytes += static_cast<double>(bucket.bytes);
        }
        pass.advance(rank.backward);
        cost.host = pass.now() - rank.backward;
        waits += pass.waits();
        if (how.shard == Shard::optimizer) {
            waits += traffic.all_gather(bytes, how.copies());  // weights have the size of gradients
        }
    }
    if (how.shard != Shard::none) {
        cost.compute -= rank.update * ring_share(how.copies());
    }
    cost.communication = traffic.seconds;
    cost.sent = traffic.sent;
    cost.exposed = waits;
    return cost;
}

RankMemory divide_memory(const RankMemory& alone, const Distribution& how, std::span<const ShardedBlock> blocks) {
    RankMemory memory = alone;
    if (how.copies() == 1) {
        return memory;
    }
    const auto share = [&](std::int64_t bytes) { return (bytes + how.copies() - 1) / how.copies(); };
    if (how.shard != Shard::none) {
        memory.optimizer = share(memory.optimizer);
    }
    if (how.shard == Shard::full) {
        std::int64_t parameters = 0;
        for (const ShardedBlock& block : blocks) {
            parameters += block.parameters;
        }
        memory.parameters += share(parameters) - parameters;  // the model's buffers stay whole
        memory.gradients = share(memory.gradients);
        memory.average += memory.average > 0 ? share(parameters) - parameters : 0;
        memory.buffers += unsharded_bytes(blocks, how.gradient_scale);
        return memory;
    }
    if (how.gradient_scale < 1) {  // on a slow link all buckets wait in the other type
        memory.buffers += static_cast<std::int64_t>(how.gradient_scale * static_cast<double>(memory.gradients));
    }
    if (how.shard == Shard::optimizer) {
        const std::int64_t chunk = std::min(kGatherBytes, memory.parameters);
        memory.buffers += 2 * chunk + chunk / how.copies();  // Gloo gathers into a copy
    }
    return memory;
}

}  // namespace stoker
