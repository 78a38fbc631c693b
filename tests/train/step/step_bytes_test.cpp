// Steps on images that are bytes, which a GPU's batches bring, compared with steps on their floats, bit for bit: every
// built-in model, eager, fused and as a graph (fake_graph.h), in float32 and under autocast.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "stoker/bridge/pixels.h"
#include "stoker/models/init.h"
#include "stoker/train/step/mixup_cutmix.h"
#include "stoker/train/step/step.h"
#include "train/step/fake_graph.h"
#include "train/step/step_kinds.h"

namespace stoker {
namespace {

using testing::capture_with;
using testing::FakeCalls;
using testing::FakeGraphs;

constexpr std::int64_t kClasses = 4;
constexpr std::int64_t kSide = 16;

// Another use of the input than a layer that autocast casts.
class CentringModel final : public Model {
  public:
    CentringModel() {
        at::Generator generator = make_generator(1);
        weight_ = parameter("weight", default_uniform({kClasses, 3 * kSide * kSide}, 16, generator));
    }
    at::Tensor forward(const at::Tensor& input) override {
        seen = input.scalar_type();
        return input.sub(input.mean()).flatten(1).matmul(weight_.t());
    }
    at::ScalarType seen = at::kByte;

  private:
    at::Tensor weight_;
};

std::unique_ptr<Model> model_named(const std::string& name) {
    if (name == "centring") {
        return std::make_unique<CentringModel>();
    }
    ModelRecipe recipe;
    recipe.name = name;
    recipe.hidden = {8};
    auto model = make_model(recipe, {3, kSide, kSide}, kClasses, 1);
    model->to(at::kCPU, model->wants_channels_last());
    return model;
}

struct ByteTraining {
    ByteTraining(const std::string& name, const StepOptions& options)
        : model(model_named(name)),
          optimizer(model->parameters(), {.name = "sgd", .lr = 0.01, .momentum = 0.9}),
          step(make_step({*model, optimizer, account, at::kCPU, options})) {
        at::set_num_threads(1);
    }

    std::vector<NamedTensor> state() const {
        std::vector<NamedTensor> all = model->state();
        const std::vector<NamedTensor> own = optimizer.state();
        all.insert(all.end(), own.begin(), own.end());
        return all;
    }

    std::unique_ptr<Model> model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
};

DeviceBatch bytes_for(const Model& model, std::int64_t samples, std::uint64_t seed) {
    const auto layout = model.wants_channels_last() ? Layout::hwc : Layout::chw;
    at::Generator generator = make_generator(seed);
    const at::Tensor pixels = at::randint(256, {samples, 3, kSide, kSide}, generator, at::kByte);
    return {.input = pixels.contiguous(at::MemoryFormat::ChannelsLast),
            .target = at::arange(samples, at::kLong).remainder(kClasses),
            .late = DeferredNormalize{.factors = normalize_factors(kImageNetNormalize), .layout = layout}};
}

DeviceBatch floats_of(DeviceBatch batch) {
    normalize_pixels(batch);
    return batch;
}

// The last of six batches is smaller.
void train(ByteTraining& training, int steps, bool bytes) {
    for (int i = 0; i < steps; ++i) {
        const DeviceBatch batch = bytes_for(*training.model, i % 6 == 5 ? 3 : 6, static_cast<std::uint64_t>(i));
        training.step->run(bytes ? batch : floats_of(batch), 0.01);
    }
}

void expect_same(ByteTraining& own, ByteTraining& expected) {
    EXPECT_EQ(own.step->take_losses(), expected.step->take_losses());
    const std::vector<NamedTensor> a = own.state();
    const std::vector<NamedTensor> b = expected.state();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    }
}

const std::vector<StepOptions> kOptions = {
    {},
    {.accumulate = 4},
    {.precision = {.autocast = at::kBFloat16}, .accumulate = 2, .clip_norm = 1},
};

// The larger models take a step of autocast alone.
TEST(StepOnBytes, IsTheStepOnFloatsForEveryModel) {
    for (const std::string name : {"mlp", "convnet", "centring", "resnet18", "vit_s_16"}) {
        const bool large = name == "resnet18" || name == "vit_s_16";
        for (std::size_t i = large ? kOptions.size() - 1 : 0; i < kOptions.size(); ++i) {
            SCOPED_TRACE(fmt::format("{} {}", name, i));
            ByteTraining bytes(name, kOptions[i]);
            ByteTraining floats(name, kOptions[i]);
            train(bytes, large ? 1 : 2, true);
            train(floats, large ? 1 : 2, false);
            EXPECT_EQ(bytes.step->compiled() == "fused", name == "mlp" && i == 0);
            expect_same(bytes, floats);
        }
    }
}

TEST(StepOnBytes, AGraphNormalisesTheBatchOfEachReplay) {
    for (const StepOptions& options : kOptions) {
        ByteTraining graph("centring", options);
        ByteTraining eager("centring", options);
        FakeCalls calls;
        capture_with(graph.step, std::make_unique<FakeGraphs>([&graph] { return graph.state(); }, calls, false));
        train(graph, 14, true);
        train(eager, 14, false);
        EXPECT_EQ(calls.captures, 1);
        EXPECT_EQ(calls.replays, 14 - 3 - 2);  // warm-up and smaller batches
        expect_same(graph, eager);
    }
}

// A graph has the factors that it was captured with.
TEST(StepOnBytes, OtherFactorsAreNotReplayed) {
    ByteTraining graph("centring", {});
    ByteTraining eager("centring", {});
    FakeCalls calls;
    capture_with(graph.step, std::make_unique<FakeGraphs>([&graph] { return graph.state(); }, calls, false));
    train(graph, 5, true);
    train(eager, 5, false);
    EXPECT_EQ(calls.replays, 2);
    DeviceBatch other = bytes_for(*graph.model, 6, 9);
    other.late->factors = normalize_factors(kCifar10Normalize);
    graph.step->run(other, 0.01);
    eager.step->run(floats_of(other), 0.01);
    EXPECT_EQ(calls.replays, 2);
    expect_same(graph, eager);
}

TEST(StepOnBytes, TheInputHasAutocastsTypeOnlyWhereNothingElseReadsIt) {
    ByteTraining own("centring", {.precision = {.autocast = at::kBFloat16}});
    train(own, 1, true);
    EXPECT_EQ(static_cast<const CentringModel&>(*own.model).seen, at::kFloat);

    at::ScalarType seen = at::kByte;
    const StepOptions options{.precision = {.autocast = at::kBFloat16},
                              .loss = {.function = [&](const at::Tensor& outputs, const DeviceBatch& batch) {
                                  seen = batch.input.scalar_type();
                                  return at::cross_entropy_loss(outputs.to(at::kFloat), batch.target);
                              }}};
    ByteTraining loss("convnet", options);
    train(loss, 1, true);
    EXPECT_EQ(seen, at::kFloat);
}

TEST(StepOnBytes, MixupAndCutmixMixTheFloats) {
    for (const MixupCutmixOptions& options : {MixupCutmixOptions{.mixup = 1, .classes = kClasses, .seed = 1},
                                              MixupCutmixOptions{.cutmix = 1, .classes = kClasses, .seed = 1}}) {
        const ByteTraining training("convnet", {});
        DeviceBatch bytes = bytes_for(*training.model, 6, 1);
        bytes.in_slot = true;
        DeviceBatch floats = floats_of(bytes);
        mix(bytes, options, 0, 3);
        mix(floats, options, 0, 3);
        EXPECT_FALSE(bytes.late);
        EXPECT_FALSE(bytes.in_slot);
        EXPECT_TRUE(at::equal(bytes.input, floats.input));
        EXPECT_TRUE(at::equal(bytes.target, floats.target));
    }
}

}  // namespace
}  // namespace stoker
