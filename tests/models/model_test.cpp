// The built-in models: torchvision's names and shapes, weights that depend on the seed alone, memory formats, and the
// checks of loaded weights.
#include "stoker/models/model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/models/init.h"

namespace stoker {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ModelRecipe resnet18(const std::string& stem = "auto") {
    ModelRecipe recipe;
    recipe.name = "resnet18";
    recipe.stem = stem;
    return recipe;
}

ModelRecipe mlp(const std::vector<std::int64_t>& hidden) {
    ModelRecipe recipe;
    recipe.hidden = hidden;
    return recipe;
}

std::map<std::string, std::string> shapes(const Model& model) {
    std::map<std::string, std::string> shapes;
    for (const auto& [name, tensor] : model.state()) {
        EXPECT_TRUE(shapes.emplace(name, fmt::format("{}", fmt::join(tensor.sizes(), "x"))).second) << name;
    }
    return shapes;
}

// The names and shapes of torchvision.models.resnet18(num_classes=10).state_dict().
std::map<std::string, std::string> torchvision_resnet18() {
    std::map<std::string, std::string> shapes;
    const auto norm = [&](const std::string& name, int width) {
        for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
            shapes[name + "." + part] = fmt::format("{}", width);
        }
        shapes[name + ".num_batches_tracked"] = "";
    };
    shapes["conv1.weight"] = "64x3x7x7";
    norm("bn1", 64);
    for (int stage = 1, in = 64; stage <= 4; ++stage) {
        const int out = 32 << stage;
        for (int block = 0; block < 2; ++block) {
            const std::string name = fmt::format("layer{}.{}", stage, block);
            shapes[name + ".conv1.weight"] = fmt::format("{}x{}x3x3", out, in);
            norm(name + ".bn1", out);
            shapes[name + ".conv2.weight"] = fmt::format("{}x{}x3x3", out, out);
            norm(name + ".bn2", out);
            if (in != out) {
                shapes[name + ".downsample.0.weight"] = fmt::format("{}x{}x1x1", out, in);
                norm(name + ".downsample.1", out);
            }
            in = out;
        }
    }
    shapes["fc.weight"] = "10x512";
    shapes["fc.bias"] = "10";
    return shapes;
}

TEST(ResNet18, HasTorchvisionsNamesAndShapes) {
    const auto model = make_model(resnet18(), {3, 224, 224}, 10, 1);
    EXPECT_EQ(shapes(*model), torchvision_resnet18());
    EXPECT_EQ(model->state().size(), 122u);
    std::int64_t parameters = 0;
    for (const auto& entry : model->parameters()) {
        parameters += entry.tensor.numel();
        EXPECT_TRUE(entry.tensor.requires_grad()) << entry.name;
    }
    EXPECT_EQ(parameters, 11'181'642);  // 11,689,512 with 1000 classes, minus 990 * 513
    for (const auto& entry : model->buffers()) {
        EXPECT_FALSE(entry.tensor.requires_grad()) << entry.name;
    }
}

TEST(ResNet18, AutoStemDependsOnTheImageSize) {
    const auto stem = [](const std::string& name, const Shape& input) {
        return shapes(*make_model(resnet18(name), input, 10, 1)).at("conv1.weight");
    };
    EXPECT_EQ(stem("auto", {3, 32, 32}), "64x3x3x3");
    EXPECT_EQ(stem("auto", {3, 64, 64}), "64x3x3x3");
    EXPECT_EQ(stem("auto", {3, 64, 65}), "64x3x7x7");
    EXPECT_EQ(stem("auto", {1, 224, 224}), "64x1x7x7");
    EXPECT_EQ(stem("imagenet", {3, 32, 32}), "64x3x7x7");
    EXPECT_EQ(stem("cifar", {3, 224, 224}), "64x3x3x3");
}

TEST(ResNet18, OnlyTrainingUpdatesRunningStatistics) {
    const auto model = make_model(resnet18(), {3, 32, 32}, 10, 1);
    at::Generator generator = make_generator(2);
    const at::Tensor input = default_uniform({4, 3, 32, 32}, 1, generator);
    const auto mean = [&] { return model->buffers()[0].tensor.clone(); };
    const at::Tensor before = mean();
    EXPECT_EQ(model->forward(input).sizes(), (at::IntArrayRef{4, 10}));
    const at::Tensor after = mean();
    EXPECT_FALSE(at::equal(before, after));
    EXPECT_EQ(model->buffers()[2].tensor.item().toLong(), 1);
    model->train(false);
    const at::Tensor a = model->forward(input);
    const at::Tensor b = model->forward(input.narrow(0, 1, 1));
    EXPECT_TRUE(at::equal(mean(), after));
    EXPECT_EQ(model->buffers()[2].tensor.item().toLong(), 1);
    EXPECT_LT(a.narrow(0, 1, 1).sub(b).abs().max().item().toFloat(), 1e-4f)
        << "the result of a sample must not depend on its batch";
}

TEST(ResNet18, OneValuePerChannelIsRefusedInTraining) {
    const auto model = make_model(resnet18("imagenet"), {3, 32, 32}, 10, 1);  // 32 x 32 pixels become 1 x 1
    at::Generator generator = make_generator(2);
    const at::Tensor input = default_uniform({2, 3, 32, 32}, 1, generator);
    EXPECT_NO_THROW(model->forward(input));
    try {
        model->forward(input.narrow(0, 0, 1));
        ADD_FAILURE() << "the variance of one value was used";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("data.drop_last"));
    }
    for (const auto& [name, tensor] : model->state()) {
        EXPECT_TRUE(tensor.isfinite().all().item().toBool()) << name;
    }
    model->train(false);
    EXPECT_TRUE(model->forward(input.narrow(0, 0, 1)).isfinite().all().item().toBool());
}

TEST(ResNet18, ChannelsLastGivesTheSameResults) {
    const auto plain = make_model(resnet18(), {3, 32, 32}, 10, 1);
    const auto last = make_model(resnet18(), {3, 32, 32}, 10, 1);
    const at::Tensor same_tensor = last->parameters()[0].tensor;
    last->to(at::kCPU, true);
    EXPECT_TRUE(same_tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) << "the tensor object must stay the same";
    EXPECT_FALSE(plain->parameters()[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
    at::Generator generator = make_generator(2);
    const at::Tensor input = default_uniform({4, 3, 32, 32}, 1, generator);
    const at::Tensor a = plain->forward(input);
    const at::Tensor b = last->forward(input.contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LT(a.sub(b).abs().max().item().toFloat(), 1e-4f);
}

TEST(Mlp, NamesShapesAndSeed) {
    const auto model = make_model(mlp({128, 64}), {1, 28, 28}, 10, 7);
    EXPECT_EQ(shapes(*model), (std::map<std::string, std::string>{{"fc1.weight", "128x784"},
                                                                  {"fc1.bias", "128"},
                                                                  {"fc2.weight", "64x128"},
                                                                  {"fc2.bias", "64"},
                                                                  {"fc3.weight", "10x64"},
                                                                  {"fc3.bias", "10"}}));
    const auto same = make_model(mlp({128, 64}), {1, 28, 28}, 10, 7);
    const auto other = make_model(mlp({128, 64}), {1, 28, 28}, 10, 8);
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_TRUE(at::equal(model->parameters()[i].tensor, same->parameters()[i].tensor));
        EXPECT_FALSE(at::equal(model->parameters()[i].tensor, other->parameters()[i].tensor));
    }
}

TEST(Mlp, WithoutHiddenLayersIsLinear) {
    const auto model = make_model(mlp({}), {1, 2, 3}, 5, 7);
    EXPECT_EQ(shapes(*model), (std::map<std::string, std::string>{{"fc1.weight", "5x6"}, {"fc1.bias", "5"}}));
    EXPECT_EQ(model->forward(at::zeros({2, 1, 2, 3})).sizes(), (at::IntArrayRef{2, 5}));
}

TEST(Model, LoadCopiesByNameAndRefusesOtherTensors) {
    const ModelRecipe recipe = mlp({4});
    const auto model = make_model(recipe, {1, 2, 2}, 3, 1);
    const auto other = make_model(recipe, {1, 2, 2}, 3, 2);
    auto state = other->state();
    std::swap(state[0], state[3]);  // the order does not matter
    model->load(state);
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_TRUE(at::equal(model->parameters()[i].tensor, other->parameters()[i].tensor));
    }
    EXPECT_TRUE(model->parameters()[0].tensor.requires_grad());

    const auto refused = [&](const std::vector<NamedTensor>& given, const std::string& name) {
        try {
            model->load(given);
            ADD_FAILURE() << name;
        } catch (const InvalidArgument& error) {
            EXPECT_THAT(error.what(), HasSubstr(name));
        }
    };
    refused({state.begin() + 1, state.end()}, "fc2.bias");
    refused(make_model(recipe, {1, 2, 2}, 5, 1)->state(), "fc2.weight of shape [3, 4]");
    // A model with one more layer, whose first two layers have the same shapes.
    refused(make_model(mlp({4, 3}), {1, 2, 2}, 3, 1)->state(), "fc3");
}

std::int64_t count(const std::vector<NamedTensor>& tensors) {
    std::int64_t elements = 0;
    for (const auto& entry : tensors) {
        elements += entry.tensor.numel();
    }
    return elements;
}

ModelRecipe named(const std::string& name) {
    ModelRecipe recipe;
    recipe.name = name;
    return recipe;
}

TEST(ResNet, HasTorchvisionsParameterCounts) {
    EXPECT_EQ(count(make_model(named("resnet34"), {3, 224, 224}, 1000, 1)->parameters()), 21'797'672);
    EXPECT_EQ(count(make_model(named("resnet50"), {3, 224, 224}, 1000, 1)->parameters()), 25'557'032);
}

// Weights of a classifier become the body's, and an auxiliary classifier is left out, as torchvision's files have one.
TEST(FcnResNet, TakesTheWeightsOfAResNetAndOfTorchvisionsFile) {
    const auto model = make_model(named("fcn_resnet50"), {3, 32, 32}, 4, 1);
    EXPECT_EQ(count(model->parameters()), 32'948'292);  // fcn_resnet50(num_classes=4, aux_loss=False)
    const auto resnet = make_model(named("resnet50"), {3, 224, 224}, 9, 2);
    const at::Tensor head = model->parameters().back().tensor.clone();
    auto state = resnet->state();
    std::erase_if(state, [](const auto& entry) { return entry.name.ends_with("num_batches_tracked"); });  // old files
    const std::vector<std::string> fresh = model->load_pretrained(state, 4);
    EXPECT_EQ(fresh.size(), 8U);  // a convolution, the norm's parameters and buffers, and a convolution with bias
    EXPECT_THAT(fresh, Each(HasSubstr("classifier.")));
    EXPECT_TRUE(at::equal(model->parameters().back().tensor, head));
    EXPECT_TRUE(at::equal(model->parameters().front().tensor, resnet->parameters().front().tensor));

    state = make_model(named("fcn_resnet50"), {3, 32, 32}, 21, 3)->state();
    state.push_back({"aux_classifier.0.weight", at::zeros({1})});
    EXPECT_EQ(model->load_pretrained(state, 4), (std::vector<std::string>{"classifier.4.weight", "classifier.4.bias"}));
    EXPECT_TRUE(at::equal(model->parameters().front().tensor, state.front().tensor));
    EXPECT_EQ(model->forward(at::zeros({1, 3, 33, 50})).sizes(), (at::IntArrayRef{1, 4, 33, 50}));
}

TEST(VisionTransformer, HasTorchvisionsNamesInOrder) {
    const auto model = make_model(named("vit_s_16"), {3, 224, 224}, 1000, 1);
    EXPECT_EQ(count(model->parameters()), 22'050'664);  // VisionTransformer(224, 16, 12, 6, 384, 1536)
    EXPECT_TRUE(model->buffers().empty());
    std::vector<std::string> names = {"class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding"};
    for (int i = 0; i < 12; ++i) {
        for (const char* part :
             {"ln_1.weight", "ln_1.bias", "self_attention.in_proj_weight", "self_attention.in_proj_bias",
              "self_attention.out_proj.weight", "self_attention.out_proj.bias", "ln_2.weight", "ln_2.bias",
              "mlp.0.weight", "mlp.0.bias", "mlp.3.weight", "mlp.3.bias"}) {
            names.push_back(fmt::format("encoder.layers.encoder_layer_{}.{}", i, part));
        }
    }
    for (const char* name : {"encoder.ln.weight", "encoder.ln.bias", "heads.head.weight", "heads.head.bias"}) {
        names.emplace_back(name);
    }
    std::vector<std::string> ours;
    for (const auto& entry : model->parameters()) {
        ours.push_back(entry.name);
    }
    EXPECT_EQ(ours, names);
}

void expect_refusal(const std::function<void()>& action, const std::string& part) {
    try {
        action();
        ADD_FAILURE() << part;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr(part));
    }
}

TEST(VisionTransformer, RefusesPartialPatchesAndOtherSizes) {
    expect_refusal([] { make_model(named("vit_s_16"), {3, 32, 40}, 3, 1); }, "32 x 40");
    const auto model = make_model(named("vit_s_16"), {1, 16, 32}, 3, 1);
    EXPECT_EQ(model->forward(at::zeros({2, 1, 16, 32})).sizes(), (at::IntArrayRef{2, 3}));
    expect_refusal([&] { model->forward(at::zeros({2, 1, 32, 16})); }, "16 x 32, as in training");
}

TEST(ConvNet, RefusesImagesBelowTheSmallestSize) {
    const auto model = make_model(named("convnet"), {1, 4, 5}, 3, 1);
    EXPECT_EQ(model->forward(at::zeros({2, 1, 4, 5})).sizes(), (at::IntArrayRef{2, 3}));
    expect_refusal([] { make_model(named("convnet"), {1, 4, 3}, 3, 1); }, "4 x 4");
}

TEST(Model, PretrainedWeightsOfOtherClassesKeepTheClassifier) {
    const auto model = make_model(named("convnet"), {3, 16, 16}, 4, 1);
    const auto other = make_model(named("convnet"), {3, 16, 16}, 9, 2);
    const at::Tensor head = model->parameters().back().tensor.clone();
    EXPECT_EQ(model->load_pretrained(other->state(), 4), (std::vector<std::string>{"fc.weight", "fc.bias"}));
    EXPECT_TRUE(at::equal(model->parameters().back().tensor, head));
    for (std::size_t i = 0; i + 2 < model->parameters().size(); ++i) {
        EXPECT_TRUE(at::equal(model->parameters()[i].tensor, other->parameters()[i].tensor));
    }
    const auto same = make_model(named("convnet"), {3, 16, 16}, 4, 3);
    EXPECT_TRUE(model->load_pretrained(same->state(), 4).empty());
    EXPECT_TRUE(at::equal(model->parameters().back().tensor, same->parameters().back().tensor));

    auto state = other->state();
    state[0].tensor = at::zeros({64, 3, 5, 5});  // not the last layer
    expect_refusal([&] { model->load_pretrained(state, 4); }, "conv1.weight of shape [64, 3, 3, 3]");
    state = other->state();
    std::erase_if(state, [](const NamedTensor& entry) { return entry.name == "fc.weight"; });
    expect_refusal([&] { model->load_pretrained(state, 4); }, "fc.weight");
}

// A model with given parameters, in the given order.
class Shapes final : public Model {
  public:
    explicit Shapes(const std::vector<std::pair<std::string, Shape>>& layers, double value = 0) {
        for (const auto& [name, shape] : layers) {
            parameter(name, at::full(shape, value));
        }
    }
    at::Tensor forward(const at::Tensor& input) override { return input; }
    void add_buffer(const std::string& name, const at::Tensor& value) { buffer(name, value); }
};

TEST(Model, OnlyALayerWithOneOutputPerClassKeepsItsValues) {
    using Layers = std::vector<std::pair<std::string, Shape>>;
    const auto fresh = [](const Layers& own, const Layers& given) {
        return Shapes(own).load_pretrained(Shapes(given, 1).state(), /*classes=*/4);
    };
    // At any place in the order and with any name.
    EXPECT_EQ(fresh({{"head.cls.weight", {4, 8}}, {"head.cls.bias", {4}}, {"body.weight", {8, 3}}},
                    {{"head.cls.weight", {9, 8}}, {"head.cls.bias", {9}}, {"body.weight", {8, 3}}}),
              (std::vector<std::string>{"head.cls.weight", "head.cls.bias"}));
    const std::tuple<Layers, Layers, std::string> refused[] = {
        // A position embedding for another image size, which belongs to no layer.
        {{{"fc.weight", {4, 8}}, {"pos", {4, 8}}}, {{"fc.weight", {4, 8}}, {"pos", {9, 8}}}, "pos of shape [4, 8]"},
        // A layer whose outputs are not the 4 classes.
        {{{"fc.weight", {5, 8}}}, {{"fc.weight", {9, 8}}}, "fc.weight of shape [5, 8], got shape [9, 8]"},
        {{{"fc.weight", {4, 8}}, {"fc.bias", {4}}}, {{"fc.weight", {9, 7}}, {"fc.bias", {9}}}, "fc.weight"},
        {{{"fc.weight", {4, 8}}, {"fc.bias", {4}}}, {{"fc.weight", {4, 8}}, {"fc.bias", {9}}}, "fc.bias"},
        {{{"fc.weight", {4, 8}}, {"fc.bias", {4}}}, {{"fc.weight", {9, 8}}, {"fc.bias", {8}}}, "fc.weight"},
        {{{"aux.weight", {4, 8}}, {"fc.weight", {4, 8}}},
         {{"aux.weight", {9, 8}}, {"fc.weight", {9, 8}}},
         "aux.weight"},
    };
    for (const auto& [own, given, name] : refused) {
        expect_refusal([&, &own = own, &given = given] { fresh(own, given); }, name);
    }
}

TEST(Model, PrefixesOfPyTorchsWrappersAreRemoved) {
    const auto given = make_model(named("convnet"), {3, 16, 16}, 4, 2);
    given->train(false);
    at::Generator generator = make_generator(2);
    const at::Tensor input = default_uniform({2, 3, 16, 16}, 1, generator);
    for (const std::string prefix :
         {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model.", "model._orig_mod."}) {
        const auto model = make_model(named("convnet"), {3, 16, 16}, 4, 1);
        auto state = given->state();
        std::ranges::for_each(state, [&](NamedTensor& entry) { entry.name.insert(0, prefix); });
        model->load_pretrained(state, 4);
        model->train(false);
        EXPECT_TRUE(at::equal(model->forward(input), given->forward(input))) << prefix;
        state.back().name.erase(0, prefix.size());  // one name without the prefix: not from a wrapper
        expect_refusal([&] { model->load_pretrained(state, 4); }, "conv1.weight of shape");
    }
    Shapes own({{"module.fc.weight", {4, 8}}});  // the model itself has such names
    EXPECT_TRUE(own.load_pretrained({{"module.fc.weight", at::ones({4, 8})}}, 4).empty());
    EXPECT_EQ(own.parameters()[0].tensor.sum().item<double>(), 32);
}

TEST(Model, WeightsThatAreNotFiniteAreRefusedByName) {
    const auto refuse = [](const std::string& name, double value, const std::string& text) {
        const auto model = make_model(named("convnet"), {3, 16, 16}, 4, 1);
        std::vector<NamedTensor> state;
        for (const NamedTensor& entry : model->state()) {
            state.push_back({entry.name, entry.tensor.detach().clone()});
        }
        std::ranges::find(state, name, &NamedTensor::name)->tensor.flatten()[2] = value;
        expect_refusal([&] { model->load_pretrained(state, 4, "model.weights: x.safetensors"); }, text);
    };
    refuse("bn1.weight", NAN, "[model.weights: x.safetensors] expected finite weights, got nan in bn1.weight");
    refuse("fc.bias", -INFINITY, "expected finite weights, got infinity in fc.bias");
    refuse("bn2.running_var", NAN, "expected finite weights, got nan in bn2.running_var");
    Shapes masked({{"fc.weight", {4, 8}}});  // an attention mask may be infinite
    masked.add_buffer("mask", at::full({4}, -INFINITY));
    masked.load_pretrained({{"fc.weight", at::ones({4, 8})}, {"mask", at::full({4}, -INFINITY)}}, 4);
}

TEST(Model, MismatchedWeightsAreExplained) {
    const auto refuse = [](const ModelRecipe& recipe, const Model& given, const std::string& text) {
        const auto model = make_model(recipe, {3, 64, 64}, 4, 1);
        expect_refusal([&] { model->load_pretrained(given.state(), 4, "model.weights: x.safetensors"); }, text);
        expect_refusal([&] { model->load(given.state(), "x.safetensors"); }, "[x.safetensors]");
    };
    const auto imagenet = make_model(resnet18("imagenet"), {3, 64, 64}, 4, 1);
    refuse(resnet18("cifar"), *imagenet, "large images: set model.stem = \"imagenet\"");
    refuse(
        resnet18("imagenet"), *make_model(resnet18("cifar"), {3, 64, 64}, 4, 1),
        "[model.weights: x.safetensors] expected conv1.weight of shape [64, 3, 7, 7], got shape [64, 3, 3, 3]; a 3x3 "
        "conv1 is a ResNet's stem for small images: set model.stem = \"cifar\"");
    refuse(resnet18("cifar"), *make_model(resnet18("cifar"), {1, 64, 64}, 4, 1),
           "they are for images (1, H, W), and these are (3, H, W)");
    refuse(named("resnet34"), *imagenet,
           "expected layer1.2.conv1.weight of shape [64, 64, 3, 3], got none: 96 of the model's 218 tensors are "
           "missing; they belong to another model: set model.name");
    refuse(resnet18(), *make_model(named("resnet34"), {3, 64, 64}, 4, 1),
           "expected the 122 tensors of the model, no others, got 96 others, such as layer1.2.conv1.weight");
    refuse(resnet18(), *make_model(named("vit_s_16"), {3, 64, 64}, 4, 1),
           "expected conv1.weight of shape [64, 3, 3, 3], got none: 122 of the model's 122 tensors are missing, but "
           "152 others, such as class_token");
}

TEST(Model, FrozenParametersGetNoGradients) {
    const auto model = make_model(mlp({4, 3}), {1, 2, 2}, 3, 1);
    model->freeze({"fc1.*", "*2.bias"});
    std::vector<std::string> trained;
    for (const auto& entry : model->trainable_parameters()) {
        trained.push_back(entry.name);
    }
    EXPECT_EQ(trained, (std::vector<std::string>{"fc2.weight", "fc3.weight", "fc3.bias"}));
    at::Generator generator = make_generator(4);
    const at::Tensor input = at::empty({5, 1, 2, 2}).normal_(0, 2, generator);
    const at::Tensor label = at::empty({5}, at::kLong).random_(0, 3, generator);
    model->backward(model->loss({.input = input, .target = label}));
    for (const auto& [name, tensor] : model->parameters()) {
        EXPECT_EQ(tensor.grad().defined(), tensor.requires_grad()) << name;
    }
    const auto unfrozen = make_model(mlp({4, 3}), {1, 2, 2}, 3, 1);
    unfrozen->backward(unfrozen->loss({.input = input, .target = label}));
    EXPECT_TRUE(
        at::allclose(model->parameters()[2].tensor.grad(), unfrozen->parameters()[2].tensor.grad(), 1e-5, 1e-7));

    expect_refusal([&] { model->freeze({"bn*"}); }, "\"bn*\"");
    expect_refusal([&] { model->freeze({"*"}); }, "fc3.bias");
}

// Two layers that share one weight.
class TiedModel final : public Model {
  public:
    TiedModel() {
        const at::Tensor weight = parameter("a.weight", at::zeros({2, 2}));
        parameter("b.weight", weight);
        buffer("a.scale", at::zeros({1}));
    }
    at::Tensor forward(const at::Tensor& input) override { return input; }
};

TEST(TiedWeights, AreListedOnceUnderTheirFirstName) {
    TiedModel model;
    EXPECT_EQ(shapes(model), (std::map<std::string, std::string>{{"a.weight", "2x2"}, {"a.scale", "1"}}));
    EXPECT_EQ(model.trainable_parameters().size(), 1);
    std::vector<NamedTensor> state = {{"a.weight", at::zeros({2, 2}).fill_(3)}, {"a.scale", at::zeros({1})}};
    model.load(state);
    state.push_back({"b.weight", state[0].tensor});
    model.load(state);
    EXPECT_TRUE(at::equal(model.parameters()[0].tensor, state[0].tensor));
    state.push_back({"c.weight", state[0].tensor});
    expect_refusal([&] { model.load(state); }, "c.weight");
}

TEST(MakeModel, UnknownNameIsRefused) {
    ModelRecipe recipe;
    recipe.name = "resnet19";
    EXPECT_THROW(make_model(recipe, {3, 32, 32}, 10, 1), InvalidArgument);
}

}  // namespace
}  // namespace stoker
