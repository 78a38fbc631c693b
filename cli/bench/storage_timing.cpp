// Threads share nothing while they read; each has its own Sample, like a loader worker.
#include "cli/bench/storage_timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "stoker/base/hash.h"
#include "stoker/pipeline/sampling/permutation.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 64;

// The indices that one thread reads in one epoch, in batches.
class Batches {
  public:
    Batches(const Permutation& order, int worker, int workers) : order_(order), next_(worker), step_(workers) {}

    std::span<const std::int64_t> next() {
        std::size_t count = 0;
        for (; count < kBatch && next_ < order_.size(); next_ += step_) {
            indices_[turn_][count++] = order_(next_);
        }
        turn_ = 1 - turn_;
        return {indices_[1 - turn_].data(), count};
    }

  private:
    const Permutation& order_;
    std::int64_t next_;
    std::int64_t step_;
    std::array<std::array<std::int64_t, kBatch>, 2> indices_{};  // the batch in use and the prefetched one
    std::size_t turn_ = 0;
};

void read_epoch(const Dataset& dataset, Batches batches, Sample& sample, StorageTiming& total) {
    const auto next_prefetched = [&] {
        const std::span<const std::int64_t> next = batches.next();
        if (!next.empty()) {
            dataset.prefetch(next);
        }
        return next;
    };
    for (std::span<const std::int64_t> batch = next_prefetched(); !batch.empty();) {
        const std::span<const std::int64_t> ahead = next_prefetched();
        for (const std::int64_t index : batch) {
            dataset.read(index, sample);
            total.hash_sum += hash_bytes(sample.bytes);
            total.bytes += static_cast<std::int64_t>(sample.bytes.size());
        }
        total.samples += static_cast<std::int64_t>(batch.size());
        batch = ahead;
    }
}

}  // namespace

StorageTiming time_reading(const Dataset& dataset, int workers, std::uint32_t first_epoch, std::uint32_t epochs) {
    std::vector<StorageTiming> parts(static_cast<std::size_t>(workers));
    std::vector<std::exception_ptr> failures(parts.size());
    const auto work = [&](int worker) {
        const auto index = static_cast<std::size_t>(worker);
        try {
            Sample sample;
            StorageTiming total;
            for (std::uint32_t epoch = first_epoch; epoch < first_epoch + epochs; ++epoch) {
                const Permutation order(dataset.size(), 1, epoch);
                read_epoch(dataset, Batches(order, worker, workers), sample, total);
            }
            parts[index] = total;
        } catch (...) {
            failures[index] = std::current_exception();
        }
    };
    const auto begin = Clock::now();
    {
        std::vector<std::jthread> threads;
        for (int worker = 0; worker < workers; ++worker) {
            threads.emplace_back(work, worker);
        }
    }
    StorageTiming all{.seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (failures[i]) {
            std::rethrow_exception(failures[i]);
        }
        all.samples += parts[i].samples;
        all.bytes += parts[i].bytes;
        all.hash_sum += parts[i].hash_sum;
    }
    return all;
}

}  // namespace stoker::cli
