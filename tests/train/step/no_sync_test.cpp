// No step waits for the device, that is, reads a tensor's value on the host. On a CPU such a read is
// aten::_local_scalar_dense. The fused optimisers' CPU kernels read one value per tensor; the CUDA kernels do not.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "stoker/models/init.h"
#include "stoker/train/step/step.h"

namespace stoker {
namespace {

// The number of reads by the operation that contains them.
std::map<std::string, int> reads;
std::vector<std::string> operations;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
    const std::string name = function.name();
    if (name == "aten::_local_scalar_dense") {
        ++reads[operations.size() < 2 ? "nothing" : operations.front()];
    }
    operations.push_back(name);
    return nullptr;
}

void on_end(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
    operations.pop_back();
}

// All reads of 100 steps except those of the fused optimisers.
std::map<std::string, int> reads_of_steps(const ModelRecipe& recipe, const Shape& image, const StepOptions& options,
                                          int steps = 100) {
    at::set_num_threads(1);
    const at::Device cpu(at::kCPU);
    const auto model = make_model(recipe, image, 4, 1);
    Optimizer optimizer(model->parameters(), {.name = "sgd", .lr = 0.01, .momentum = 0.9});
    Account account;
    const std::unique_ptr<Step> step = make_step({*model, optimizer, account, cpu, options});
    at::Generator generator = make_generator(1);
    const DeviceBatch batch = {.input = at::randn({4, image[0], image[1], image[2]}, generator),
                               .target = at::arange(4, at::kLong)};
    reads.clear();
    operations.clear();
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end));
    for (int i = 0; i < steps; ++i) {
        step->run(batch, i % 2 == 0 ? 0.01 : 0.02);
    }
    at::removeCallback(handle);
    EXPECT_GT(reads["aten::_fused_sgd_"], 0) << "the counter must work";
    reads.erase("aten::_fused_sgd_");
    return reads;
}

const std::map<std::string, int> kNone;

ModelRecipe mlp() {
    ModelRecipe recipe;
    recipe.hidden = {8};
    return recipe;
}

TEST(NoSync, PlainStep) {
    EXPECT_EQ(reads_of_steps(mlp(), {1, 4, 4}, {.compile = false}), kNone);
}

TEST(NoSync, EverythingAtOnce) {
    const StepOptions options{.precision = {.loss_scaling = true},
                              .accumulate = 2,
                              .clip_norm = 1,
                              .clip_value = 0.5,
                              .loss = {.label_smoothing = 0.1},
                              .ema = 0.9,
                              .scaler = {.growth_interval = 10}};
    EXPECT_EQ(reads_of_steps(mlp(), {1, 4, 4}, options), kNone);
}

TEST(NoSync, Autocast) {
    const StepOptions options{.precision = {.autocast = at::kBFloat16}};
    EXPECT_EQ(reads_of_steps(mlp(), {1, 4, 4}, options), kNone);
}

TEST(NoSync, ConvolutionsWithBatchNorm) {
    ModelRecipe resnet;
    resnet.name = "resnet18";
    EXPECT_EQ(reads_of_steps(resnet, {3, 8, 8}, {.ema = 0.9}, 10), kNone);
}

}  // namespace
}  // namespace stoker
