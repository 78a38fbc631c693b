// The cost of a fused training step, by kernel set and threads, and the rate at which it computes. The ways take turns,
// so a noisy machine slows all of them alike.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/fused/fused_kernels.h"
#include "stoker/fused/fused_mlp.h"

namespace {

using namespace stoker;

constexpr int kSteps = 20;  // of each way in a round
constexpr int kBatches = 16;

struct Model {
    std::vector<Buffer> memory;  // aligned, as LibTorch's
    std::vector<FusedLayer> layers;
    std::unique_ptr<FusedMlp> mlp;
};

float* floats(Buffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
}

Buffer random_values(std::size_t count, float spread, Rng& rng) {
    Buffer values(count * sizeof(float));
    std::generate_n(floats(values), count, [&] { return spread * (2 * rng.uniform() - 1); });
    return values;
}

std::unique_ptr<Model> make_model(const FusedMlpOptions& options, const FusedKernels& kernels) {
    auto model = std::make_unique<Model>();
    Rng rng({.seed = 1});
    const auto add = [&](std::size_t count, float spread) {
        return floats(model->memory.emplace_back(random_values(count, spread, rng)));
    };
    for (std::size_t l = 0; l + 1 < options.widths.size(); ++l) {
        const auto in = static_cast<std::size_t>(options.widths[l]);
        const auto out = static_cast<std::size_t>(options.widths[l + 1]);
        const float spread = 1 / std::sqrt(static_cast<float>(in));
        model->layers.push_back({.weight = add(in * out, spread),
                                 .bias = add(out, spread),
                                 .weight_first = add(in * out, 0),
                                 .bias_first = add(out, 0),
                                 .weight_second = add(in * out, 0),
                                 .bias_second = add(out, 0)});
    }
    model->mlp = std::make_unique<FusedMlp>(options, model->layers, kernels);
    return model;
}

struct Way {
    std::string name;
    std::unique_ptr<Model> model;
    std::vector<double> us = {};
    std::int64_t number = 0;
};

// Multiplications and additions of a step: forward, weight gradients, and input gradients of all layers but the first.
double flops_of(const std::vector<int>& widths, std::int64_t samples) {
    double sum = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
        sum += (l == 0 ? 4.0 : 6.0) * widths[l] * widths[l + 1] * static_cast<double>(samples);
    }
    return sum;
}

void compare(const std::vector<int>& widths, std::int64_t samples, const FusedOptimizer& optimizer, int rounds) {
    Rng rng({.seed = 2});
    const std::size_t items = static_cast<std::size_t>(kBatches * samples);
    Buffer x = random_values(items * static_cast<std::size_t>(widths.front()), 1, rng);
    std::vector<std::int64_t> label(items);
    std::generate(label.begin(), label.end(),
                  [&] { return std::int64_t{rng.below(static_cast<std::uint32_t>(widths.back()))}; });
    std::vector<Way> ways;
    for (const FusedKernels& kernels : fused_kernels().last(std::max<std::size_t>(1, fused_kernels().size() - 1))) {
        for (const int threads : {1, 2}) {
            const FusedMlpOptions options{.widths = widths, .optimizer = optimizer, .threads = threads};
            ways.push_back({fmt::format("{}, {} threads", kernels.name, threads), make_model(options, kernels)});
        }
    }
    for (int round = 0; round < rounds; ++round) {
        for (Way& way : ways) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < kSteps; ++i) {
                const std::int64_t first = way.number % kBatches * samples;
                way.model->mlp->step(
                    {.x = floats(x) + first * widths.front(), .label = label.data() + first, .samples = samples}, 1e-3,
                    ++way.number);
            }
            const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
            way.us.push_back(time.count() / kSteps);
        }
    }
    fmt::print("{}, batch {}, {:.1f} MFLOP\n", fmt::join(widths, "-"), samples, flops_of(widths, samples) / 1e6);
    for (Way& way : ways) {
        std::sort(way.us.begin(), way.us.end());
        const double median = way.us[way.us.size() / 2];
        fmt::print("  {:<20} {:7.1f} us   best {:7.1f}   {:6.1f} GFLOP/s\n", way.name, median, way.us.front(),
                   flops_of(widths, samples) / median / 1e3);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
    compare({784, 128, 64, 10}, 64, {}, rounds);
    compare({784, 128, 64, 10}, 64, {.kind = FusedOptimizer::Kind::sgd, .momentum = 0.9}, rounds);
    if (argc > 2) {
        compare({1024, 1024, 1024, 10}, 128, {}, 3);
        compare({20, 64, 64, 2}, 32, {}, rounds);
    }
}
