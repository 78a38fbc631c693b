// The cost of a sample's place: each sampler over 10^9 samples, asked for single positions anywhere in the epoch and
// for whole batches. Orders take turns, so a noisy machine slows all of them alike.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "stoker/base/process_memory.h"
#include "stoker/base/rng.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace {

using namespace stoker;

constexpr std::int64_t kSamples = 1'000'000'000;
constexpr int kRounds = 301;

struct Row {
    std::string name;
    std::shared_ptr<const Sampler> sampler;
    std::vector<double> single = {};  // ns a draw
    std::vector<double> batch = {};
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Draws of `length` positions each, from anywhere.
double draw_ns(const Sampler& sampler, std::int64_t epoch, std::size_t length) {
    constexpr std::size_t kDraws = 2048;
    std::vector<SampledIndex> draws(length);
    Rng rng({.seed = 7, .epoch = static_cast<std::uint32_t>(epoch)});
    std::int64_t sum = 0;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kDraws; i += length) {
        const auto room = static_cast<std::uint32_t>(sampler.size() - static_cast<std::int64_t>(length));
        sampler.draw(epoch, rng.below(room), draws);
        sum += draws.back().index;
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    return sum < 0 ? -1 : time.count() / kDraws;
}

}  // namespace

int main() {
    std::vector<std::int64_t> shards(100'000, kSamples / 100'000);
    std::vector<Row> rows = {
        {"shuffled", make_sampler({.size = kSamples, .seed = 1})},
        {"in windows of 1,000", make_sampler({.size = kSamples, .seed = 1, .window = 1000, .shards = shards})},
        {"weighted, 2 sources",
         make_sampler({.size = kSamples,
                       .seed = 1,
                       .epoch_samples = kSamples / 2,
                       .groups = {{.weight = 3, .first = 0, .size = kSamples / 2},
                                  {.weight = 1, .first = kSamples / 2, .size = kSamples / 2}}})}};
    for (int round = 0; round < kRounds; ++round) {
        for (Row& row : rows) {
            draw_ns(*row.sampler, 5, 64);  // makes the epoch's sequence of shards, if there is one
            row.single.push_back(draw_ns(*row.sampler, 5, 1));
            row.batch.push_back(draw_ns(*row.sampler, 5, 64));
        }
    }
    fmt::print("ns a sample, of {} samples; medians of {} rounds\n", kSamples, kRounds);
    for (const Row& row : rows) {
        fmt::print("  {:<22} one at a time {:6.0f}   in batches of 64 {:6.0f}\n", row.name, median(row.single),
                   median(row.batch));
    }
    fmt::print("  peak memory of the process {:.1f} MB\n", stoker::peak_rss_mb());
}
