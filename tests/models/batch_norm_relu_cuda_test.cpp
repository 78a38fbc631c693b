// The fused batch norm on a real GPU compared with LibTorch's operations in float64 on the same values.
#include "stoker/models/batch_norm_relu.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stoker/base/cuda_device.h"
#include "stoker/bridge/device.h"
#include "stoker/models/init.h"

namespace stoker {
namespace {

struct Case {
    at::ScalarType type;
    std::vector<std::int64_t> shape;  // N, C, H, W
    bool relu;
    bool shortcut;
};

struct Values {
    at::Tensor x, shortcut;
    BatchNorm norm;
};

at::Tensor leaf(const at::Tensor& value, const at::TensorOptions& options) {
    const at::Tensor copy = value.to(options, /*non_blocking=*/false, /*copy=*/true);
    return (copy.dim() == 4 ? copy.contiguous(at::MemoryFormat::ChannelsLast) : copy).detach().requires_grad_();
}

// The same values, rounded to the case's type, in `type`.
Values values_of(const Case& c, at::ScalarType type, at::ScalarType type_of_norm, const at::Device& device) {
    at::Generator generator = make_generator(3);
    const auto options = at::TensorOptions().device(device);
    const std::int64_t channels = c.shape[1];
    const at::Tensor x = at::randn(c.shape, generator).mul_(3).add_(at::randn({1, channels, 1, 1}, generator).mul_(9));
    const at::Tensor shortcut = at::randn(c.shape, generator);
    const auto of_norm = options.dtype(type_of_norm);
    Values values;
    values.x = leaf(x.to(c.type), options.dtype(type));
    values.shortcut = c.shortcut ? leaf(shortcut.to(c.type), options.dtype(type)) : at::Tensor();
    values.norm = {.gamma = leaf(at::rand({channels}, generator).add_(0.5), of_norm),
                   .beta = leaf(at::randn({channels}, generator), of_norm),
                   .running_mean = at::zeros({channels}, of_norm),
                   .running_var = at::ones({channels}, of_norm)};
    return values;
}

bool is_fused(const at::Tensor& y) {
    return y.grad_fn()->name().find("Fused") != std::string::npos;
}

void expect_close(const at::Tensor& got, const at::Tensor& expected, double tolerance, const char* what) {
    ASSERT_TRUE(got.defined()) << what;
    const at::Tensor a = got.detach().to(at::kDouble);
    const double error = a.sub(expected.detach()).norm().item<double>() / expected.detach().norm().item<double>();
    EXPECT_LT(error, tolerance) << what;  // also fails for NaN
}

class BatchNormReluCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!device_.is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
        if (!cuda_built()) {
            GTEST_SKIP() << "built without CUDA";
        }
    }

    void check(const Case& c) {
        SCOPED_TRACE(c10::toString(c.type));
        SCOPED_TRACE(at::IntArrayRef(c.shape));
        SCOPED_TRACE(c.relu ? "relu" : "no relu");
        SCOPED_TRACE(c.shortcut ? "shortcut" : "no shortcut");
        const BatchNormOptions options{.relu = c.relu};
        Values fused = values_of(c, c.type, at::kFloat, device_);
        Values exact = values_of(c, at::kDouble, at::kDouble, device_);
        at::Generator generator = make_generator(4);
        const at::Tensor dy = at::randn(c.shape, generator).to(c.type);
        const at::Tensor y = batch_norm_relu(fused.x, fused.norm, fused.shortcut, options);
        const at::Tensor expected = batch_norm_relu_reference(exact.x, exact.norm, exact.shortcut, options);
        EXPECT_EQ(is_fused(y), c.shape[1] % (16 / static_cast<std::int64_t>(c10::elementSize(c.type))) == 0);
        EXPECT_EQ(y.scalar_type(), c.type);
        EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
        y.backward(dy.to(device_));
        expected.backward(dy.to(device_, at::kDouble));
        const double tolerance = c.type == at::kFloat ? 1e-5 : c.type == at::kHalf ? 2e-3 : 1e-2;
        expect_close(y, expected, tolerance, "y");
        expect_close(fused.norm.running_mean, exact.norm.running_mean, 1e-5, "running_mean");
        expect_close(fused.norm.running_var, exact.norm.running_var, 1e-5, "running_var");
        // A value at relu's edge may fall on either side of zero.
        expect_close(fused.norm.gamma.grad(), exact.norm.gamma.grad(), 1e-3, "gamma");
        expect_close(fused.norm.beta.grad(), exact.norm.beta.grad(), 1e-3, "beta");
        expect_close(fused.x.grad(), exact.x.grad(), std::max(tolerance, 1e-3), "x");
        if (c.shortcut) {
            expect_close(fused.shortcut.grad(), exact.shortcut.grad(), std::max(tolerance, 1e-3), "shortcut");
        }
    }

    void check_all(const std::vector<std::vector<std::int64_t>>& shapes) {
        for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
            for (const std::vector<std::int64_t>& shape : shapes) {
                for (const bool relu : {false, true}) {
                    for (const bool shortcut : {false, true}) {
                        check({type, shape, relu, shortcut});
                    }
                }
            }
        }
    }

    at::Device device_ = pick_device("auto");
};

// compute-sanitizer checks this one, which the sizes of the next would make slow.
TEST_F(BatchNormReluCuda, IsTheReferenceInFloat64) {
    check_all({{4, 8, 2, 2}, {3, 24, 5, 7}, {1, 256, 33, 17}, {5, 40, 9, 9}});
}

TEST_F(BatchNormReluCuda, OfAResNetsSizesToo) {
    check_all({{8, 64, 56, 56}, {16, 2048, 7, 7}});
}

TEST_F(BatchNormReluCuda, RepeatsItsBitsAndKeepsRunningStatisticsIfAskedTo) {
    const Case c{at::kBFloat16, {16, 256, 28, 28}, true, true};
    std::vector<at::Tensor> results;
    for (int i = 0; i < 2; ++i) {
        Values values = values_of(c, c.type, at::kFloat, device_);
        const at::Tensor y =
            batch_norm_relu(values.x, values.norm, values.shortcut, {.update_running = false, .relu = true});
        y.backward(at::ones(c.shape, y.options()));
        for (const at::Tensor& tensor :
             {y.detach(), values.x.grad(), values.norm.gamma.grad(), values.norm.beta.grad(), values.shortcut.grad()}) {
            results.push_back(tensor);
        }
        EXPECT_TRUE(at::equal(values.norm.running_mean.cpu(), at::zeros({256})));
        EXPECT_TRUE(at::equal(values.norm.running_var.cpu(), at::ones({256})));
    }
    for (std::size_t i = 0; i < results.size() / 2; ++i) {
        EXPECT_TRUE(at::equal(results[i], results[i + results.size() / 2])) << i;
    }
}

// 20 channels do not fill whole vectors of 16 bytes, and plain memory is not channels-last.
TEST_F(BatchNormReluCuda, OtherShapesTakeLibTorchsOperations) {
    check({at::kFloat, {4, 3, 6, 6}, true, true});
    check({at::kBFloat16, {4, 20, 6, 6}, true, false});
    const Case c{at::kFloat, {4, 16, 6, 6}, true, false};
    Values values = values_of(c, c.type, at::kFloat, device_);
    const at::Tensor plain = values.x.detach().contiguous();
    const at::Tensor y = batch_norm_relu(plain, values.norm, {}, {.relu = true});
    EXPECT_FALSE(is_fused(y));
    values = values_of(c, c.type, at::kFloat, device_);
    expect_close(y, batch_norm_relu(values.x, values.norm, {}, {.relu = true}).to(at::kDouble), 1e-5, "y");
}

}  // namespace
}  // namespace stoker
