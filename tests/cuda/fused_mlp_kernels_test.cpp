// The kernels of fused/mlp_cuda on the CPU, compared with FusedMlp: the same bits, in every order of blocks and
// threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "fused/reference.h"
#include "stoker/fused/flush_denormals.h"
#include "stoker/fused/mlp_cuda/fused_mlp_cuda.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using testing::GuardedArray;
using testing::Memory;
using testing::Samples;

constexpr float kLr = 0x1p-9F;  // the same number in float32 and in double

struct MlpCase {
    const char* name;
    FusedMlpOptions options;
    std::vector<std::int64_t> samples;  // of the steps
};

void PrintTo(const MlpCase& test, std::ostream* out) {
    *out << test.name;
}

struct Trained {
    Memory<float> memory;
    std::vector<float> losses = {};  // mean, of each step
    float steps = 0;
};

std::vector<Samples> batches_of(const MlpCase& test) {
    Rng rng({.seed = 5});
    std::vector<Samples> batches;
    for (const std::int64_t count : test.samples) {
        batches.push_back(testing::random_samples(test.options.widths, count, rng));
    }
    return batches;
}

Memory<float> first_weights(const MlpCase& test) {
    Rng rng({.seed = 4});
    return testing::random_memory(test.options.widths, rng);
}

Trained on_the_cpu(const MlpCase& test) {
    Trained result{.memory = first_weights(test)};
    FusedMlp mlp(test.options, testing::layers_of(result.memory));
    std::int64_t number = 0;
    for (const Samples& batch : batches_of(test)) {
        const double sum = mlp.step(batch.batch(), kLr, ++number);
        result.losses.push_back(static_cast<float>(sum / static_cast<double>(batch.count)));
    }
    result.steps = static_cast<float>(number);
    return result;
}

// A network whose memory ends where pages begin that cannot be touched.
class GuardedNetwork {
  public:
    explicit GuardedNetwork(Memory<float> memory) : memory_(std::move(memory)) {
        for (auto& layer : memory_) {
            std::vector<float*> at;
            for (const auto* part : testing::parts(layer)) {
                at.push_back(arrays_.emplace_back(*part).data());
            }
            const std::vector<float> zero = {0};
            layers_.push_back({.memory = {at[0], at[1], at[2], at[3], at[4], at[5]},
                               .weight_steps = arrays_.emplace_back(zero).data(),
                               .bias_steps = arrays_.emplace_back(zero).data()});
        }
    }

    const std::vector<FusedMlpCudaLayer>& layers() const { return layers_; }
    // The memory after steps.
    Memory<float> read() {
        Memory<float> memory = memory_;
        std::size_t array = 0;
        for (auto& layer : memory) {
            for (auto* part : testing::parts(layer)) {
                std::copy_n(arrays_[array++].data(), part->size(), part->begin());
            }
            array += 2;
        }
        return memory;
    }

  private:
    Memory<float> memory_;
    std::deque<GuardedArray<float>> arrays_;
    std::vector<FusedMlpCudaLayer> layers_;
};

// Returns the mean loss.
float step_of(const GuardedNetwork& network, const MlpCase& test, const Samples& batch) {
    GuardedArray<float> x(batch.x), lr(std::vector<float>{kLr}), mean(1);
    GuardedArray<std::int64_t> label(batch.label);
    GuardedArray<float> workspace(static_cast<std::size_t>(fused_mlp_cuda_workspace(test.options, batch.count)));
    fused_mlp_step_cuda(test.options, network.layers(),
                        {.batch = {.x = x.data(), .label = label.data(), .samples = batch.count},
                         .lr = lr.data(),
                         .mean_loss = mean.data(),
                         .workspace = workspace.data()},
                        nullptr);
    return *mean.data();
}

Trained in_kernels(const MlpCase& test) {
    const FlushDenormals flush;
    GuardedNetwork network(first_weights(test));
    Trained result;
    for (const Samples& batch : batches_of(test)) {
        EXPECT_EQ(why_no_fused_mlp_cuda(test.options, batch.count), "");
        result.losses.push_back(step_of(network, test, batch));
    }
    result.memory = network.read();
    result.steps = *network.layers().back().bias_steps;
    for (const FusedMlpCudaLayer& layer : network.layers()) {
        EXPECT_EQ(*layer.weight_steps, result.steps);
    }
    return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

using FusedKind = FusedOptimizer::Kind;

const MlpCase kMlpCases[] = {
    {"mnist", {.widths = {784, 128, 64, 10}}, {64, 64, 33}},
    {"one layer", {.widths = {37, 5}, .optimizer = {.kind = FusedKind::sgd, .weight_decay = 0.01}}, {3, 70}},
    {"two large layers",
     {.widths = {150, 130, 170, 90, 7},
      .activation = Activation::tanh,
      .optimizer = {.kind = FusedKind::sgd, .momentum = 0.9, .nesterov = true}},
     {9, 70}},
    {"gelu, smoothed",
     {.widths = {129, 140, 100, 30, 11},
      .activation = Activation::gelu,
      .label_smoothing = 0.1,
      .optimizer = {.kind = FusedKind::adamw, .weight_decay = 0.05}},
     {65, 1}},
    {"one class", {.widths = {3, 2, 1}, .optimizer = {.kind = FusedKind::sgd, .momentum = 0.5}}, {2, 2}},
};

class FusedMlpKernels : public ::testing::TestWithParam<MlpCase> {};

TEST_P(FusedMlpKernels, HaveTheBitsOfTheCpuInEveryOrder) {
    Trained expected = on_the_cpu(GetParam());
    on_cpu::every_order([&] {
        Trained result = in_kernels(GetParam());
        EXPECT_EQ(result.steps, expected.steps);
        for (std::size_t l = 0; l < expected.memory.size(); ++l) {
            const auto a = testing::parts(result.memory[l]);
            const auto b = testing::parts(expected.memory[l]);
            for (std::size_t part = 0; part < a.size(); ++part) {
                EXPECT_TRUE(same_bits(*a[part], *b[part])) << "layer " << l << ", part " << part;
            }
        }
        for (std::size_t i = 0; i < expected.losses.size(); ++i) {  // the sum has another order
            EXPECT_NEAR(result.losses[i], expected.losses[i], 1e-6F * expected.losses[i]);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(, FusedMlpKernels, ::testing::ValuesIn(kMlpCases));

TEST(FusedMlpKernel, ALabelOutsideTheClassesIsNan) {
    MlpCase test = kMlpCases[1];
    GuardedNetwork network(first_weights(test));
    Samples batch = batches_of(test)[0];
    batch.label[1] = 5;
    EXPECT_TRUE(std::isnan(step_of(network, test, batch)));
}

TEST(FusedMlpKernel, RefuseWhatDoesNotFitOrPay) {
    EXPECT_NE(why_no_fused_mlp_cuda({.widths = {64, 1200, 10}}, 64), "") << "the last layer";
    EXPECT_NE(why_no_fused_mlp_cuda({.widths = {784, 128, 10}}, 4096), "") << "the batch";
    EXPECT_NE(why_no_fused_mlp_cuda({.widths = std::vector<int>(10, 4)}, 4), "") << "the number of layers";
    EXPECT_EQ(why_no_fused_mlp_cuda({.widths = {64, 1000, 10}}, 64), "");
}

}  // namespace
}  // namespace stoker
