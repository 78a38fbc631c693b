// batch_norm_cuda.cu on the CPU, compared with the definition in double, and with itself: the same bits in every order
// of blocks and threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/models/kernels/batch_norm_cuda.h"
#include "support/cuda_on_cpu/cuda_bf16.h"
#include "support/cuda_on_cpu/cuda_fp16.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using testing::GuardedArray;

template <typename T>
constexpr DType kType = DType::float32;
template <>
constexpr DType kType<__half> = DType::float16;
template <>
constexpr DType kType<__nv_bfloat16> = DType::bfloat16;

// The distance between 1 and the next value.
template <typename T>
constexpr double kStep = 0x1p-23;
template <>
constexpr double kStep<__half> = 0x1p-10;
template <>
constexpr double kStep<__nv_bfloat16> = 0x1p-7;

struct Case {
    std::int64_t rows;
    int channels;
    bool relu;
    bool shortcut;
};

// Values (rows, channels) around a different mean in each channel.
template <typename T>
std::vector<T> noise(const Case& test, std::uint64_t seed, float mean) {
    Rng rng({.seed = seed});
    std::vector<T> values;
    for (std::int64_t i = 0; i < test.rows * test.channels; ++i) {
        const auto channel = static_cast<float>(i % test.channels);
        values.push_back(T(mean * channel + (static_cast<float>(rng.below(2001)) - 1000) / 500));
    }
    return values;
}

std::vector<float> per_channel(int channels, std::uint64_t seed, float low) {
    Rng rng({.seed = seed});
    std::vector<float> values;
    for (int i = 0; i < channels; ++i) {
        values.push_back(low + static_cast<float>(rng.below(1000)) / 1000);
    }
    return values;
}

// Everything that both passes write.
template <typename T>
struct Result {
    std::vector<T> y, dx, dshortcut;
    std::vector<std::uint8_t> mask;
    std::vector<float> mean, inv_std, running_mean, running_var, dgamma, dbeta;
};

template <typename T>
struct Inputs {
    explicit Inputs(const Case& test)
        : x(noise<T>(test, 1, 3)),
          shortcut(noise<T>(test, 2, 0)),
          dy(noise<T>(test, 3, 0.01F)),
          gamma(per_channel(test.channels, 4, 0.5F)),
          beta(per_channel(test.channels, 5, -0.5F)) {}

    std::vector<T> x, shortcut, dy;
    std::vector<float> gamma, beta;
};

template <typename T>
Result<T> run(const Case& test, const Inputs<T>& given) {
    const BatchNormShape shape{.rows = test.rows, .channels = test.channels, .dtype = kType<T>};
    EXPECT_TRUE(batch_norm_cuda_takes(shape));
    const auto channels = static_cast<std::size_t>(test.channels);
    GuardedArray<T> x(given.x), shortcut(given.shortcut), dy(given.dy);
    GuardedArray<T> y(given.x.size()), dx(given.x.size()), dshortcut(given.x.size());
    GuardedArray<float> gamma(given.gamma), beta(given.beta), mean(channels), inv_std(channels);
    GuardedArray<float> running_mean(std::vector<float>(channels, 0.5F)), running_var(std::vector<float>(channels, 2));
    GuardedArray<float> dgamma(channels), dbeta(channels);
    GuardedArray<float> workspace(static_cast<std::size_t>(batch_norm_workspace(shape)));
    std::optional<GuardedArray<std::uint8_t>> mask;
    if (test.relu && test.shortcut) {
        mask.emplace(static_cast<std::size_t>(batch_norm_mask_bytes(shape)));
    }
    batch_norm_forward_cuda(shape,
                            {.x = x.data(),
                             .shortcut = test.shortcut ? shortcut.data() : nullptr,
                             .gamma = gamma.data(),
                             .beta = beta.data(),
                             .running_mean = running_mean.data(),
                             .running_var = running_var.data(),
                             .relu = test.relu,
                             .y = y.data(),
                             .mask = mask ? mask->data() : nullptr,
                             .mean = mean.data(),
                             .inv_std = inv_std.data(),
                             .workspace = workspace.data()},
                            nullptr);
    batch_norm_backward_cuda(shape,
                             {.dy = dy.data(),
                              .x = x.data(),
                              .mask = mask ? mask->data() : nullptr,
                              .gamma = gamma.data(),
                              .beta = beta.data(),
                              .mean = mean.data(),
                              .inv_std = inv_std.data(),
                              .relu = test.relu,
                              .dx = dx.data(),
                              .dshortcut = test.shortcut ? dshortcut.data() : nullptr,
                              .dgamma = dgamma.data(),
                              .dbeta = dbeta.data(),
                              .workspace = workspace.data()},
                             nullptr);
    return {y.values(),
            dx.values(),
            test.shortcut ? dshortcut.values() : std::vector<T>(),
            mask ? mask->values() : std::vector<std::uint8_t>(),
            mean.values(),
            inv_std.values(),
            running_mean.values(),
            running_var.values(),
            dgamma.values(),
            dbeta.values()};
}

void expect_near(double got, double wanted, double tolerance, const char* what, std::size_t i) {
    ASSERT_NEAR(got, wanted, tolerance * std::max(1.0, std::abs(wanted))) << what << " " << i;
}

// The statistics by their definition; then, from the kernel's own statistics, the results of the two last passes.
template <typename T>
void expect_definition(const Case& test, const Inputs<T>& given, const Result<T>& got) {
    const auto channels = static_cast<std::size_t>(test.channels);
    const auto rows = static_cast<std::size_t>(test.rows);
    const double count = static_cast<double>(rows);
    const auto value = [](const T& x) { return static_cast<float>(x); };
    for (std::size_t c = 0; c < channels; ++c) {
        double mean = 0;
        double variance = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            mean += value(given.x[r * channels + c]) / count;
        }
        for (std::size_t r = 0; r < rows; ++r) {
            variance += std::pow(value(given.x[r * channels + c]) - mean, 2) / count;
        }
        expect_near(got.mean[c], mean, 1e-5, "mean", c);
        expect_near(got.inv_std[c], 1 / std::sqrt(variance + 1e-5), 1e-5, "inv_std", c);
        expect_near(got.running_mean[c], 0.9 * 0.5 + 0.1 * mean, 1e-5, "running mean", c);
        expect_near(got.running_var[c], 0.9 * 2 + 0.1 * variance * count / (count - 1), 1e-5, "running var", c);

        const float scale = given.gamma[c] * got.inv_std[c];
        double sum = 0;
        double products = 0;
        std::vector<double> g(rows);
        for (std::size_t r = 0; r < rows; ++r) {
            const std::size_t at = r * channels + c;
            float y = std::fmaf(value(given.x[at]) - got.mean[c], scale, given.beta[c]);
            y += test.shortcut ? value(given.shortcut[at]) : 0;
            const bool passed = !test.relu || y > 0;
            ASSERT_EQ(value(got.y[at]), value(T(passed ? y : 0.0F))) << "y " << at;
            if (!got.mask.empty()) {
                const std::size_t each = 16 / sizeof(T);
                ASSERT_EQ(got.mask[at / each] >> at % each & 1, passed ? 1 : 0) << "mask " << at;
            }
            g[r] = passed ? value(given.dy[at]) : 0;
            if (test.shortcut) {
                ASSERT_EQ(value(got.dshortcut[at]), g[r]) << "dshortcut " << at;
            }
            sum += g[r];
            products += g[r] * (value(given.x[at]) - got.mean[c]);
        }
        const double inverse = got.inv_std[c];
        expect_near(got.dbeta[c], sum, 1e-4, "dbeta", c);
        expect_near(got.dgamma[c], products * inverse, 1e-4, "dgamma", c);
        for (std::size_t r = 0; r < rows; ++r) {
            const std::size_t at = r * channels + c;
            const double centred = value(given.x[at]) - got.mean[c];
            const double dx = scale * (g[r] - sum / count - centred * products * inverse * inverse / count);
            expect_near(value(got.dx[at]), dx, 1e-4 + kStep<T>, "dx", at);
        }
    }
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
void check(const Case& test) {
    SCOPED_TRACE(::testing::Message() << test.rows << " x " << test.channels << (test.relu ? ", relu" : "")
                                      << (test.shortcut ? ", shortcut" : "") << ", " << dtype_name(kType<T>));
    const Inputs<T> given(test);
    std::optional<Result<T>> first;
    on_cpu::every_order([&] {
        const Result<T> got = run(test, given);
        if (!first) {
            expect_definition(test, given, got);
            first = got;
            return;
        }
        EXPECT_TRUE(same_bits(got.y, first->y) && same_bits(got.mask, first->mask) &&
                    same_bits(got.mean, first->mean) && same_bits(got.inv_std, first->inv_std) &&
                    same_bits(got.running_var, first->running_var));
        EXPECT_TRUE(same_bits(got.dx, first->dx) && same_bits(got.dshortcut, first->dshortcut) &&
                    same_bits(got.dgamma, first->dgamma) && same_bits(got.dbeta, first->dbeta));
    });
}

// Rows for one block and for several, whole groups of rows and a rest; channels that fill the lanes and that do not.
TEST(BatchNormKernels, AreTheDefinitionInEveryOrder) {
    for (const bool relu : {false, true}) {
        for (const bool shortcut : {false, true}) {
            for (const auto& [rows, channels] : {std::pair{9, 8}, {37, 24}, {300, 64}, {97, 328}, {1100, 8}}) {
                const Case test{rows, channels, relu, shortcut};
                check<float>(test);
                check<__half>(test);
                check<__nv_bfloat16>(test);
            }
        }
    }
}

TEST(BatchNormKernels, TakeWholeVectorsAndMoreThanOneRow) {
    EXPECT_FALSE(batch_norm_cuda_takes({.rows = 8, .channels = 6}));
    EXPECT_FALSE(batch_norm_cuda_takes({.rows = 8, .channels = 12, .dtype = DType::float16}));
    EXPECT_FALSE(batch_norm_cuda_takes({.rows = 1, .channels = 8}));
    EXPECT_TRUE(batch_norm_cuda_takes({.rows = 2, .channels = 4}));
}

}  // namespace
}  // namespace stoker
