// The fused step against a reference in double precision, for every activation and optimiser and many shapes; the
// reference against finite differences; the same bits for any number of threads and any kernel set.
#include "stoker/fused/fused_mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fused/reference.h"
#include "stoker/base/error.h"
#include "stoker/fused/fused_kernels.h"

namespace stoker {
namespace {

using namespace stoker::testing;

constexpr FusedOptimizer kOptimizers[] = {
    {.kind = FusedOptimizer::Kind::sgd},
    {.kind = FusedOptimizer::Kind::sgd, .weight_decay = 0.1},
    {.kind = FusedOptimizer::Kind::sgd, .momentum = 0.9},
    {.kind = FusedOptimizer::Kind::sgd, .momentum = 0.8, .nesterov = true, .weight_decay = 0.01},
    {.kind = FusedOptimizer::Kind::adam},
    {.kind = FusedOptimizer::Kind::adam, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.02},
    {.kind = FusedOptimizer::Kind::adamw, .weight_decay = 0.3},
};
constexpr Activation kActivations[] = {Activation::relu, Activation::gelu, Activation::tanh};

struct Shape {
    std::vector<int> widths;
    std::vector<std::int64_t> batches;  // samples of each step
};

const std::vector<Shape> kShapes = {
    {{3, 5, 2}, {1, 2, 7, 3}},
    {{4, 3}, {16, 65, 1}},
    {{37, 70, 33, 5}, {64, 17, 129}},
    {{100, 17, 33, 1}, {31, 33, 80}},
    {{16, 64, 64, 64, 10}, {64, 64, 48}},
    {{1, 1, 1}, {1, 200}},
    {{256, 20, 4}, {64, 70}},
};

// Adam's first steps are as large for tiny gradients as for large ones; a larger eps makes them comparable.
FusedOptimizer comparable(FusedOptimizer optimizer) {
    optimizer.eps = std::max(optimizer.eps, 1e-4);
    return optimizer;
}

void expect_near(Memory<float>& found, Memory<double>& expected, double tolerance, const std::string& what) {
    for (std::size_t l = 0; l < found.size(); ++l) {
        const auto have = parts(found[l]);
        const auto want = parts(expected[l]);
        for (std::size_t p = 0; p < have.size(); ++p) {
            double largest = 1e-3;
            std::ranges::for_each(*want[p], [&](double value) { largest = std::max(largest, std::abs(value)); });
            for (std::size_t i = 0; i < have[p]->size(); ++i) {
                ASSERT_NEAR((*have[p])[i], (*want[p])[i], tolerance * largest)
                    << what << ": layer " << l << ", part " << p << ", value " << i;
            }
        }
    }
}

void expect_like_reference(const FusedMlpOptions& options, const std::vector<std::int64_t>& batches,
                           const std::string& what) {
    Rng rng({.seed = 7});
    Memory<float> memory = random_memory(options.widths, rng);
    Memory<double> reference = in_double(memory);
    FusedMlp mlp(options, layers_of(memory));
    for (std::size_t t = 0; t < batches.size(); ++t) {
        const Samples samples = random_samples(options.widths, batches[t], rng);
        const auto number = static_cast<std::int64_t>(t + 1);
        const double expected = reference_step(options, reference, samples, 0.01, number);
        ASSERT_NEAR(mlp.step(samples.batch(), 0.01, number), expected, 2e-5 * (1 + std::abs(expected))) << what;
        ASSERT_NO_FATAL_FAILURE(expect_near(memory, reference, 2e-4, what + ", step " + std::to_string(number)));
    }
}

TEST(FusedMlp, FollowsTheReferenceForEveryActivationAndOptimizer) {
    for (const FusedOptimizer& optimizer : kOptimizers) {
        for (const Activation activation : kActivations) {
            const FusedMlpOptions options{.widths = {19, 70, 21, 6},
                                          .activation = activation,
                                          .label_smoothing = activation == Activation::tanh ? 0.1 : 0.0,
                                          .optimizer = comparable(optimizer),
                                          .threads = 2};
            expect_like_reference(options, {40, 64, 9, 70},
                                  "optimizer " + std::to_string(&optimizer - kOptimizers) + ", activation " +
                                      std::to_string(static_cast<int>(activation)));
        }
    }
}

TEST(FusedMlp, FollowsTheReferenceForManyShapes) {
    for (const Shape& shape : kShapes) {
        const FusedMlpOptions options{
            .widths = shape.widths, .activation = Activation::gelu, .optimizer = comparable({}), .threads = 3};
        expect_like_reference(options, shape.batches, ::testing::PrintToString(shape.widths));
    }
}

TEST(FusedMlp, FollowsTheReferenceForTheMnistModel) {
    expect_like_reference({.widths = {784, 128, 64, 10}, .optimizer = comparable({}), .threads = 2}, {64, 32}, "mnist");
}

TEST(FusedReference, HasTheGradientsOfItsLoss) {
    for (const Activation activation : kActivations) {
        const FusedMlpOptions options{.widths = {5, 4, 3}, .activation = activation, .label_smoothing = 0.2};
        Rng rng({.seed = 3});
        Memory<double> memory = in_double(random_memory(options.widths, rng));
        const Samples samples = random_samples(options.widths, 6, rng);
        Memory<double> grads = gradients(options, memory, samples);
        for (std::size_t l = 0; l < memory.size(); ++l) {
            for (int p = 0; p < 2; ++p) {
                std::vector<double>& values = *parts(memory[l])[static_cast<std::size_t>(p)];
                for (std::size_t i = 0; i < values.size(); ++i) {
                    const double before = values[i];
                    constexpr double kStep = 1e-6;
                    values[i] = before + kStep;
                    const double above = loss_sum(options, memory, samples);
                    values[i] = before - kStep;
                    const double below = loss_sum(options, memory, samples);
                    values[i] = before;
                    ASSERT_NEAR((*parts(grads[l])[static_cast<std::size_t>(p)])[i], (above - below) / (2 * kStep) / 6,
                                1e-8);
                }
            }
        }
    }
}

// Several steps with batches of different sizes.
std::pair<Memory<float>, std::vector<double>> trained(const FusedMlpOptions& options, const Shape& shape,
                                                      const FusedKernels& kernels) {
    Rng rng({.seed = 11});
    Memory<float> memory = random_memory(options.widths, rng);
    FusedMlp mlp(options, layers_of(memory), kernels);
    std::vector<double> losses;
    std::int64_t number = 0;
    for (const std::int64_t count : shape.batches) {
        losses.push_back(mlp.step(random_samples(options.widths, count, rng).batch(), 0.02, ++number));
    }
    return {memory, losses};
}

void expect_same(Memory<float>& a, Memory<float>& b) {
    for (std::size_t l = 0; l < a.size(); ++l) {
        for (std::size_t p = 0; p < parts(a[l]).size(); ++p) {
            ASSERT_EQ(*parts(a[l])[p], *parts(b[l])[p]) << "layer " << l << ", part " << p;
        }
    }
}

TEST(FusedMlp, GivesTheSameBitsForAnyThreadsAndKernels) {
    std::vector<Shape> shapes = kShapes;
    shapes.push_back({{784, 128, 64, 10}, {64}});
    shapes.push_back({{300, 17, 33, 1}, {1000, 5}});
    for (const Shape& shape : shapes) {
        for (const Activation activation : kActivations) {
            for (const std::size_t which : {2, 3, 5}) {
                FusedMlpOptions options{
                    .widths = shape.widths, .activation = activation, .optimizer = kOptimizers[which], .threads = 1};
                auto [expected, losses] = trained(options, shape, kPlainFusedKernels);
                for (const FusedKernels& kernels : fused_kernels()) {
                    for (options.threads = 1; options.threads <= 4; ++options.threads) {
                        if (kernels.name == std::string("plain") && options.threads > 2) {
                            continue;
                        }
                        SCOPED_TRACE(std::string(kernels.name) + ", " + ::testing::PrintToString(options.threads) +
                                     " threads, " + ::testing::PrintToString(shape.widths));
                        auto [found, found_losses] = trained(options, shape, kernels);
                        ASSERT_EQ(found_losses, losses);
                        ASSERT_NO_FATAL_FAILURE(expect_same(found, expected));
                    }
                }
            }
        }
    }
}

TEST(FusedMlp, StaysExactWhereFunctionsSaturate) {
    for (const FusedKernels& kernels : fused_kernels()) {
        std::vector<float> values(kPanel);
        std::vector<float> derivatives(kPanel);
        for (int i = 0; i < 400; ++i) {
            for (int s = 0; s < kPanel; ++s) {
                values[static_cast<std::size_t>(s)] = 0.001f * static_cast<float>(kPanel * i + s) - 12.8f;
            }
            for (const Activation activation : kActivations) {
                std::vector<float> y = values;
                kernels.activate(activation, 1, kPanel, y.data(), derivatives.data());
                for (std::size_t s = 0; s < kPanel; ++s) {
                    const double x = values[s];
                    ASSERT_NEAR(y[s], activated(activation, x), 3e-7 * std::max(1.0, std::abs(x))) << x;
                    if (activation == Activation::gelu) {
                        ASSERT_NEAR(derivatives[s], slope(activation, x), 1e-6) << x;
                    }
                }
            }
        }
    }
}

TEST(FusedMlp, ShowsNanInItsLoss) {
    Rng rng({.seed = 1});
    for (const Activation activation : kActivations) {
        const FusedMlpOptions options{.widths = {3, 4, 2}, .activation = activation};
        Memory<float> memory = random_memory(options.widths, rng);
        FusedMlp mlp(options, layers_of(memory));
        Samples samples = random_samples(options.widths, 5, rng);
        samples.x[4] = std::nanf("");
        EXPECT_TRUE(std::isnan(mlp.step(samples.batch(), 0.01, 1)));
    }
}

TEST(FusedMlp, RefusesWhatDoesNotFit) {
    Rng rng({.seed = 1});
    FusedMlpOptions options{.widths = {3, 4, 2}};
    Memory<float> memory = random_memory(options.widths, rng);
    std::vector<FusedLayer> layers = layers_of(memory);
    FusedMlp mlp(options, layers);
    const Memory<float> before = memory;
    Samples samples = random_samples(options.widths, 5, rng);
    samples.label[3] = 2;
    EXPECT_THROW(mlp.step(samples.batch(), 0.01, 1), InvalidArgument);
    samples.label[3] = -1;
    EXPECT_THROW(mlp.step(samples.batch(), 0.01, 1), InvalidArgument);
    EXPECT_EQ(memory[0].weight, before[0].weight);
    samples.label[3] = 1;
    EXPECT_THROW(mlp.step(samples.batch(), 0.01, 0), InvalidArgument);

    EXPECT_THROW(FusedMlp({.widths = {3}}, {}), InvalidArgument);
    EXPECT_THROW(FusedMlp({.widths = {3, 0, 2}}, layers), InvalidArgument);
    EXPECT_THROW(FusedMlp({.widths = {3, 4}}, layers), InvalidArgument);
    options.threads = 0;
    EXPECT_THROW(FusedMlp(options, layers), InvalidArgument);
    options.threads = 1;
    layers[1].bias_second = nullptr;
    EXPECT_THROW(FusedMlp(options, layers), InvalidArgument);
    options.optimizer.kind = FusedOptimizer::Kind::sgd;
    layers[1].weight_first = nullptr;
    EXPECT_NO_THROW(FusedMlp(options, layers));
}

}  // namespace
}  // namespace stoker
