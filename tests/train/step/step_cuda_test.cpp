// Training steps on a real GPU: every built-in model as a graph and eagerly, in the precisions of a GPU, without
// waiting for the device, with losses that overflow, and with too little memory. `./dev test-cuda` runs them.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stoker/bridge/device_memory.h"
#include "stoker/bridge/pixels.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/models/init.h"
#include "stoker/models/model.h"
#include "stoker/models/torchscript_export.h"
#include "stoker/train/step/step.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

constexpr std::int64_t kCudaClasses = 10;
constexpr std::int64_t kBatch = 16;

struct CudaTraining {
    CudaTraining(const std::string& name, const StepOptions& options, const at::Device& device, std::int64_t side = 32)
        : model(on(make_model(recipe_of(name), {3, side, side}, kCudaClasses, 1), device)),
          optimizer(model->parameters(), {.name = "sgd", .lr = 0.01, .momentum = 0.9}),
          step(make_step({*model, optimizer, account, device, options})) {}

    // `name` is a built-in model or a TorchScript file.
    static ModelRecipe recipe_of(const std::string& name) {
        ModelRecipe recipe;
        (name.ends_with(".pt") ? recipe.script : recipe.name) = name;
        return recipe;
    }

    static std::unique_ptr<Model> on(std::unique_ptr<Model> model, const at::Device& device) {
        model->to(device, model->wants_channels_last());
        return model;
    }

    std::unique_ptr<Model> model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
};

DeviceBatch batch_of(const CudaTraining& training, std::int64_t samples, std::uint64_t seed, const at::Device& device,
                     std::int64_t side = 32) {
    at::Generator generator = make_generator(seed);
    const auto format =
        training.model->wants_channels_last() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    return {.input = at::randn({samples, 3, side, side}, generator).contiguous(format).to(device),
            .target = at::arange(samples, at::kLong).remainder(kCudaClasses).to(device)};
}

// Epochs of six batches, the last one smaller.
std::vector<double> train(CudaTraining& training, int steps, const at::Device& device) {
    for (int i = 0; i < steps; ++i) {
        at::Generator draws = at::globalContext().defaultGenerator(device);
        draws.set_current_seed(static_cast<std::uint64_t>(i));
        training.step->run(batch_of(training, i % 6 == 5 ? 5 : kBatch, static_cast<std::uint64_t>(i % 6), device),
                           0.01);
    }
    return training.step->take_losses();
}

class StepCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!device_.is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }
    at::Device device_ = pick_device("auto");
};

// Losses may drift apart as rounding differs: convolutions add in another order from call to call.
void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i;
    }
}

TEST_F(StepCuda, TheGraphOfEachModelIsItsEagerStep) {
    for (const char* name : {"mlp", "convnet", "resnet18", "resnet50", "vit_s_16"}) {
        SCOPED_TRACE(name);
        const StepOptions options{.clip_norm = 1, .ema = 0.9};
        StepOptions one_by_one = options;
        one_by_one.compile = false;
        CudaTraining eager(name, one_by_one, device_);
        CudaTraining graph(name, options, device_);
        const std::vector<double> expected = train(eager, 15, device_);
        expect_near(train(graph, 15, device_), expected, 5e-2);
        EXPECT_EQ(graph.step->compiled(), "graph");
        EXPECT_TRUE(std::ranges::all_of(expected, [](double loss) { return std::isfinite(loss); }));
    }
}

TEST_F(StepCuda, TheFirstStepIsTheCpus) {
    for (const char* name : {"mlp", "convnet", "resnet18", "vit_s_16"}) {
        SCOPED_TRACE(name);
        CudaTraining cpu(name, {.compile = false}, at::kCPU);
        CudaTraining gpu(name, {.compile = false}, device_);
        expect_near(train(gpu, 3, device_), train(cpu, 3, at::kCPU), 2e-2);
    }
}

TEST_F(StepCuda, ResNetInBf16For100StepsAsGraphAndEager) {
    const StepOptions options{.precision = {.autocast = at::kBFloat16, .tf32 = true}};
    StepOptions one_by_one = options;
    one_by_one.compile = false;
    CudaTraining eager("resnet18", one_by_one, device_);
    CudaTraining graph("resnet18", options, device_);
    const std::vector<double> expected = train(eager, 100, device_);
    const std::vector<double> losses = train(graph, 100, device_);
    EXPECT_EQ(graph.step->compiled(), "graph");
    EXPECT_LT(losses.back(), 0.2);  // the six batches are learned by heart
    EXPECT_LT(expected.back(), 0.2);
    expect_near({losses.begin(), losses.begin() + 6}, {expected.begin(), expected.begin() + 6}, 0.05);
}

TEST_F(StepCuda, AStepThatOverflowsInFp16IsSkipped) {
    for (const bool compile : {false, true}) {
        SCOPED_TRACE(compile);
        CudaTraining training(
            "resnet18", {.precision = {.autocast = at::kHalf, .loss_scaling = true}, .compile = compile}, device_);
        train(training, 5, device_);
        const double scale = training.step->scaler().scale().item<double>();
        std::vector<at::Tensor> before;
        for (const NamedTensor& entry : training.model->parameters()) {
            before.push_back(entry.tensor.detach().clone());
        }
        const DeviceBatch batch = batch_of(training, kBatch, 1, device_);
        batch.input.fill_(std::numeric_limits<float>::infinity());
        training.step->run(batch, 0.01);
        EXPECT_EQ(training.step->compiled() == "graph", compile);
        EXPECT_EQ(training.step->scaler().scale().item<double>(), scale / 2);
        for (std::size_t i = 0; i < before.size(); ++i) {
            EXPECT_TRUE(at::equal(training.model->parameters()[i].tensor, before[i])) << i;
        }
    }
}

struct ErrorOnSync {
    ErrorOnSync() { torch_cuda().set_sync_debug_mode(/*error=*/true); }
    ErrorOnSync(const ErrorOnSync&) = delete;
    ErrorOnSync& operator=(const ErrorOnSync&) = delete;
    ~ErrorOnSync() { torch_cuda().set_sync_debug_mode(/*error=*/false); }
};

// LibTorch throws where it would wait. The first steps may wait: they choose algorithms and capture the graph.
TEST_F(StepCuda, NoStepWaitsForTheDevice) {
    for (const bool compile : {false, true}) {
        for (const auto type : {at::kBFloat16, at::kHalf}) {
            SCOPED_TRACE(compile);
            SCOPED_TRACE(c10::toString(type));
            CudaTraining training("resnet18",
                                  {.precision = {.autocast = type, .loss_scaling = type == at::kHalf},
                                   .accumulate = 2,
                                   .clip_norm = 1,
                                   .clip_value = 1,
                                   .ema = 0.9,
                                   .compile = compile},
                                  device_);
            train(training, 6, device_);
            const DeviceBatch batch = batch_of(training, kBatch, 1, device_);
            {
                const ErrorOnSync error_on_sync;
                EXPECT_THROW(batch.input.sum().item<double>(), c10::Error);  // the switch works
                for (int i = 0; i < 100; ++i) {
                    EXPECT_NO_THROW(training.step->run(batch, 0.01));
                }
            }
            EXPECT_EQ(training.step->compiled() == "graph", compile);
            EXPECT_EQ(training.step->take_losses().size(), 100U);
        }
    }
}

// Also under autocast: the step is fused, and computes in float32.
TEST_F(StepCuda, TheStepOfAnMlpHasTheBitsOfTheCpu) {
    CudaTraining cpu("mlp", {.ema = 0.9}, at::kCPU);
    CudaTraining gpu("mlp", {.precision = {.autocast = at::kBFloat16, .tf32 = true}, .ema = 0.9}, device_);
    EXPECT_EQ(cpu.step->compiled(), "fused");
    expect_near(train(gpu, 15, device_), train(cpu, 15, at::kCPU), 1e-6);
    EXPECT_EQ(gpu.step->compiled(), "graph, fused");
    for (std::size_t i = 0; i < cpu.model->parameters().size(); ++i) {
        EXPECT_TRUE(at::equal(gpu.model->parameters()[i].tensor.to(at::kCPU), cpu.model->parameters()[i].tensor))
            << cpu.model->parameters()[i].name;
    }
    const DeviceBatch batch = batch_of(gpu, kBatch, 1, device_);
    const ErrorOnSync error_on_sync;
    for (int i = 0; i < 20; ++i) {
        EXPECT_NO_THROW(gpu.step->run(batch, 0.01));
    }
}

// As the loader's batches come. The steps after the capture normalise within the graph, and wait for nothing.
TEST_F(StepCuda, ImagesThatAreBytesAreNormalisedInTheStep) {
    for (const char* name : {"mlp", "resnet18"}) {
        for (const bool compile : {false, true}) {
            SCOPED_TRACE(name);
            SCOPED_TRACE(compile);
            const StepOptions options{.precision = {.autocast = at::kBFloat16}, .accumulate = 2, .compile = compile};
            CudaTraining bytes(name, options, device_);
            CudaTraining floats(name, options, device_);
            const auto layout = bytes.model->wants_channels_last() ? Layout::hwc : Layout::chw;
            at::Generator generator = make_generator(1);
            const at::Tensor pixels = at::randint(256, {kBatch, 3, 32, 32}, generator, at::kByte);
            const DeviceBatch given{.input = pixels.contiguous(at::MemoryFormat::ChannelsLast).to(device_),
                                    .target = at::arange(kBatch, at::kLong).remainder(kCudaClasses).to(device_),
                                    .late = DeferredNormalize{normalize_factors(kImageNetNormalize), layout}};
            DeviceBatch normalized = given;
            normalize_pixels(normalized);
            for (int i = 0; i < 6; ++i) {
                bytes.step->run(given, 0.01);
                floats.step->run(normalized, 0.01);
            }
            EXPECT_EQ(bytes.step->compiled() == "graph", compile);
            {
                const ErrorOnSync error_on_sync;
                EXPECT_NO_THROW(bytes.step->run(given, 0.01));
            }
            floats.step->run(normalized, 0.01);
            const std::vector<double> losses = bytes.step->take_losses();
            const std::vector<double> expected = floats.step->take_losses();
            EXPECT_EQ(losses.front(), expected.front());  // the same input, before any sum in another order
            expect_near(losses, expected, 5e-2);
        }
    }
}

TEST_F(StepCuda, TooLittleMemorySplitsTheBatch) {
    constexpr std::int64_t kMany = 512;
    constexpr std::int64_t kLargeSide = 224;
    CudaTraining training("resnet50", {}, device_, kLargeSide);
    const DeviceBatch batch = batch_of(training, kMany, 1, device_, kLargeSide);  // 300 MB, and 40 GB of activations
    const std::size_t all = device_properties(device_)->memory_bytes;
    const std::int64_t taken = static_cast<std::int64_t>(all) - (std::int64_t{12} << 30);
    if (taken <= 0) {
        GTEST_SKIP() << "a device of 12 GiB or less";
    }
    {
        const at::Tensor held = at::empty({taken}, at::TensorOptions().dtype(at::kByte).device(device_));
        training.step->run(batch, 0.01);
        training.step->run(batch, 0.01);
    }
    EXPECT_GT(training.step->accumulate(), 1);
    for (const double loss : training.step->take_losses()) {
        EXPECT_TRUE(std::isfinite(loss));
    }
}

TEST_F(StepCuda, ATorchScriptModelTrainsAsAGraph) {
    const testing::TempDir folder;
    const std::string path = folder / "net.pt";
    {
        CudaTraining cpu("vit_s_16", {}, at::kCPU);
        save_torchscript(*cpu.model, {3, 32, 32}, path);
    }
    CudaTraining eager(path, {.compile = false}, device_);
    CudaTraining graph(path, {}, device_);
    const std::vector<double> expected = train(eager, 12, device_);
    expect_near(train(graph, 12, device_), expected, 1e-2);
    EXPECT_EQ(graph.step->compiled(), "graph");
}

}  // namespace
}  // namespace stoker
