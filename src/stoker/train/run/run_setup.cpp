// See setup.h. Nothing here keeps state of its own but LibTorch's global switches.
#include "stoker/train/run/run_setup.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/forward_state.h"

namespace stoker {
namespace {

std::unique_ptr<Loader> make_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                    const std::vector<OpSpec>& ops, LoaderOptions options, const at::Device& device,
                                    bool channels_last, std::int64_t channels, const Group& group) {
    if (options.batch_size % group.size() != 0) {
        throw InvalidArgument({.where = "data.batch_size",
                               .expected = fmt::format("a multiple of the {} ranks", group.size()),
                               .got = fmt::to_string(options.batch_size)});
    }
    options.rank = group.rank();
    options.world_size = group.size();
    options.workers = recipe.data.workers.value_or(auto_workers(device.is_cuda()));
    options.layout = channels_last ? Layout::hwc : Layout::chw;
    options.allocator = &slot_allocator(device, recipe.data.pin_memory);
    TransformOptions transform = transform_options(recipe.data);
    transform.channels = channels;
    return std::make_unique<Loader>(dataset, Transform(ops, transform), options);
}

// Of all micro-batches of a batch, on any rank that has samples of it: both cuts are as even as can be.
std::int64_t smallest_part(std::int64_t samples, std::int64_t ranks, std::int64_t accumulate) {
    const std::int64_t slice = std::max<std::int64_t>(samples / ranks, 1);
    return slice / std::min(accumulate, slice);
}

// What the model says against so many samples in training; empty: nothing.
std::string trouble_with(std::int64_t samples, Model& model, const Shape& image, std::int64_t classes,
                         const at::Device& device, const StepOptions& options) {
    const c10::NoGradGuard no_grad;
    const Autocast autocast(options.precision, device);
    std::vector<std::int64_t> images = image;  // (N, C, H, W)
    images.insert(images.begin(), samples);
    const at::Tensor label = options.soft_targets ? at::zeros({samples, classes}, device)
                                                  : at::zeros({samples}, at::TensorOptions(device).dtype(at::kLong));
    try {
        model.loss(at::zeros(images, device), label, options.loss);
    } catch (const std::exception& error) {
        const std::string text = first_sentence(first_line_of(error));
        return text.substr(0, text.find("; "));  // the model's own hint is not for this
    }
    return "";
}

}  // namespace

at::Device prepare_device(const Recipe& recipe, const Group& group) {
    const at::Device device = pick_device(recipe.device);
    if (!group.alone() && !device.is_cpu()) {
        throw Unsupported({.where = "device",
                           .expected = "the CPU, where several processes train together",
                           .got = device.str(),
                           .hint = "several GPUs are not supported yet: set device = \"cpu\", or start one process"});
    }
    at::set_num_threads(recipe.train.threads.value_or(read_core_budget().usable));
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(recipe.train.deterministic, /*warn_only=*/false);
    context.setBenchmarkCuDNN(!recipe.train.deterministic);
    const Precision precision = run_precision(recipe, device);
    context.setAllowTF32CuDNN(precision.tf32);
    context.setAllowTF32CuBLAS(precision.tf32);
    return device;
}

Precision run_precision(const Recipe& recipe, const at::Device& device) {
    // An exported graph has its arithmetic in itself: what `auto` would cast stays as it is.
    const bool own = !recipe.model.exported.empty() && recipe.train.precision == "auto";
    return choose_precision(own ? "fp32" : recipe.train.precision, device);
}

StepOptions step_options(const Recipe& recipe, const at::Device& device) {
    const TrainRecipe& train = recipe.train;
    return {.precision = run_precision(recipe, device),
            .accumulate = std::min(train.accumulate, recipe.data.batch_size),
            .clip_norm = train.clip_norm,
            .clip_value = train.clip_value,
            .loss = {.label_smoothing = train.label_smoothing},
            .ema = train.ema,
            .scaler = {.initial_scale = train.loss_scale, .growth_interval = train.loss_scale_interval},
            .compile = train.compile != "none",
            .soft_targets = train.mixup > 0 || train.cutmix > 0};
}

std::unique_ptr<Loader> make_train_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                          bool channels_last, const Group& group) {
    LoaderOptions options = train_loader_options(recipe, data);
    options.classes = class_count(recipe, *data.train);
    constexpr std::int64_t kAsRead = 0;
    return make_loader(recipe, data.train, recipe.data.train_ops, options, device, channels_last, kAsRead, group);
}

std::unique_ptr<Loader> make_val_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                        bool channels_last, std::int64_t channels, const Group& group) {
    LoaderOptions options = val_loader_options(recipe, data);
    options.classes = class_count(recipe, data.train ? *data.train : *data.val);
    return make_loader(recipe, data.val, recipe.data.val_ops, options, device, channels_last, channels, group);
}

std::optional<ImageSize> required_size(const DataRecipe& recipe, const ModelMetadata& about) {
    const Shape input = input_of(about);
    if (input.empty() || gives_one_size(make_ops(recipe.val_ops))) {
        return std::nullopt;
    }
    return ImageSize{static_cast<int>(input[1]), static_cast<int>(input[2])};
}

std::unique_ptr<Loader> make_predict_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                            const at::Device& device, bool channels_last, const ModelMetadata& about) {
    LoaderOptions options = val_loader_options(recipe, {.train = nullptr, .val = dataset});
    options.bad_samples = dataset->size();
    options.replace = false;
    options.size = required_size(recipe.data, about);
    return make_loader(recipe, dataset, recipe.data.val_ops, options, device, channels_last, channels_of(about),
                       Group());
}

std::unique_ptr<Model> make_trained_model(const Recipe& recipe, const ModelFile& weights, const Shape& image,
                                          std::int64_t classes, const at::Device& device) {
    if (const std::int64_t channels = channels_of(weights.about); channels != 0 && channels != image.front()) {
        throw InvalidArgument({.where = weights.path,
                               .expected = fmt::format("images of {}, as in training", pluralize(channels, "channel")),
                               .got = fmt::to_string(image.front()),
                               .hint = "arrays have the channels that they were stored with"});
    }
    std::unique_ptr<Model> model = make_model(recipe.model, image, classes, recipe.seed);
    model->load(weights.tensors, weights.path);
    model->to(device, uses_channels_last(recipe, model.get()));
    require_fit(recipe, *model, image, classes, device);
    return model;
}

bool uses_channels_last(const Recipe& recipe, const Model* model) {
    const bool made_here = recipe.model.script.empty() && recipe.model.exported.empty();
    const bool convolutions = model != nullptr ? model->wants_channels_last() : made_here && recipe.model.name != "mlp";
    return recipe.train.channels_last && convolutions;
}

std::vector<std::string> prepare_model(Model& model, const Recipe& recipe, std::int64_t classes,
                                       const at::Device& device, bool resumes) {
    if (model.trained().empty()) {
        throw InvalidArgument({.where = "model",
                               .expected = "at least one parameter that trains",
                               .got = model.parameters().empty() ? "a model without parameters"
                                                                 : "requires_grad = False for all of them"});
    }
    std::vector<std::string> fresh;
    if (!recipe.model.weights.empty() && !resumes) {
        ModelFile given = read_weights(recipe.model.weights);
        fresh = model.load_pretrained(std::move(given.tensors), classes, "model.weights: " + given.path);
    }
    model.freeze(recipe.model.freeze);
    if (recipe.train.gradient_checkpointing) {
        model.enable_gradient_checkpointing();
    }
    model.to(device, uses_channels_last(recipe, &model));
    return fresh;
}

std::int64_t class_count(const Recipe& recipe, const Dataset& dataset) {
    const auto in_data = static_cast<std::int64_t>(dataset.classes().size());
    const std::int64_t classes = recipe.model.classes.value_or(in_data);
    if (classes < 1 || classes < in_data) {
        throw InvalidArgument({.where = "model.classes",
                               .expected = in_data == 0 ? std::string("the number of classes")
                                                        : fmt::format("at least the {} classes of the data", in_data),
                               .got = fmt::to_string(classes),
                               .hint = in_data == 0 ? "the data has no class names, or no labels at all: set "
                                                      "model.classes to their number, or name the field of the labels"
                                                    : "leave it out to take the number from the data"});
    }
    return classes;
}

void require_fit(const Recipe& recipe, Model& model, const Shape& image, std::int64_t classes,
                 const at::Device& device) {
    if (recipe.model.script.empty() && recipe.model.exported.empty()) {
        return;
    }
    const char* where = recipe.model.script.empty() ? "model.export" : "model.script";
    for (const NamedTensor& entry : model.state()) {
        dtype_of_scalar(entry.tensor.scalar_type());  // a checkpoint could not hold it
    }
    const c10::NoGradGuard no_grad;
    std::vector<std::int64_t> one = image;
    one.insert(one.begin(), 1);
    model.train(false);
    at::Tensor logits;
    try {
        logits = model.forward(at::zeros(one, at::TensorOptions().device(device)));
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = where,
                               .expected = fmt::format("a model of images ({})", fmt::join(image, ", ")),
                               .got = first_sentence(error.what_without_backtrace()),
                               .hint = "change data.train_ops and data.val_ops, or the model"});
    }
    model.train(true);
    if (logits.sizes() != at::IntArrayRef{1, classes} || logits.scalar_type() != at::kFloat) {
        throw InvalidArgument(
            {.where = where,
             .expected = fmt::format("float logits [1, {}] of one image, for {} classes", classes, classes),
             .got = fmt::format("{} [{}]", at::toString(logits.scalar_type()), fmt::join(logits.sizes(), ", ")),
             .hint = "the model's last layer must have as many outputs as the data has classes"});
    }
}

void require_val_fit(Model& model, const Shape& train, const Shape& val, const at::Device& device) {
    if (val == train) {
        return;
    }
    const c10::NoGradGuard no_grad;
    std::vector<std::int64_t> one = val;
    one.insert(one.begin(), 1);
    const bool training = model.training();
    model.train(false);
    try {
        model.forward(at::zeros(one, at::TensorOptions().device(device)));
    } catch (const std::exception& error) {  // LibTorch's, or the model's own
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = "data.val_ops",
                               .expected = fmt::format("images that the model takes, such as those of training ({})",
                                                       fmt::join(train, ", ")),
                               .got = fmt::format("({})", fmt::join(val, ", ")),
                               .hint = "let data.val_ops end in the size that data.train_ops end in"});
    }
    model.train(training);
}

void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Shape& image,
                            std::int64_t classes, const at::Device& device) {
    const StepOptions options = step_options(recipe, device);
    const int ranks = sampler.options().world_size;
    const std::int64_t whole = sampler.samples(0);
    const std::int64_t last = sampler.samples(sampler.batches() - 1);
    const bool in_all = smallest_part(whole, ranks, options.accumulate) == 1;
    if (model.linear_chain() != nullptr || (!in_all && smallest_part(last, ranks, options.accumulate) > 1)) {
        return;
    }
    ForwardState before(model, device);
    before.keep();
    const std::string trouble = trouble_with(1, model, image, classes, device, options);
    const bool batch_is_why = !trouble.empty() && trouble_with(2, model, image, classes, device, options).empty();
    before.restore();
    if (!batch_is_why) {
        return;  // other trouble is the first step's to tell
    }
    const bool parts_are_why = smallest_part(in_all ? whole : last, ranks, 1) > 1;
    const std::string of_ranks = ranks > 1 ? fmt::format(", over {} ranks", ranks) : "";
    const std::string in_parts = options.accumulate > 1 ? fmt::format(", in {} parts", options.accumulate) : "";
    throw InvalidArgument(
        {.where = parts_are_why ? "train.accumulate"
                  : in_all      ? "data.batch_size"
                                : "data.drop_last",
         .expected = "at least two samples at a time, without which this model does not train",
         .got = fmt::format("one in {} of {}{}{} ({})", in_all ? "a batch" : "an epoch's last batch",
                            in_all ? whole : last, of_ranks, in_parts, trouble),
         .hint = std::string(parts_are_why ? "lower it, or " : "") +
                 (in_all ? "set a larger data.batch_size" : "set data.drop_last = true, or another data.batch_size")});
}

void require_classes(std::span<const std::string> trained, const std::string& origin, const Dataset& data) {
    const auto own = data.classes();
    if (own.size() <= trained.size() && std::equal(own.begin(), own.end(), trained.begin())) {
        return;
    }
    // From the first that differs.
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(trained, own).in1 - trained.begin());
    throw InvalidArgument(
        {.where = data.path(),
         .expected = fmt::format("{}, as in {}",
                                 at < trained.size() ? fmt::format("class {} to be \"{}\"", at, trained[at])
                                                     : fmt::format("no class {}", at),
                                 origin),
         .got = at < own.size() ? fmt::format("\"{}\"", own[at]) : "fewer classes",
         .hint = "training and validation data must have the same classes"});
}

void require_several_classes(const Recipe& recipe, const Dataset& data) {
    if (class_count(recipe, data) == 1 && recipe.model.exported.empty()) {
        throw InvalidArgument(
            {.where = recipe.data.train,
             .expected = "at least two classes, without which there is nothing to learn",
             .got = data.classes().empty() ? "one" : fmt::format("one, \"{}\"", data.classes().front()),
             .hint = "if others are to come, set model.classes to their number"});
    }
}

void require_same_classes(const RecipeData& data) {
    if (data.val != nullptr) {
        // A small test set may lack the last digits.
        require_classes(data.train->classes(), data.train->path(), *data.val);
    }
}

}  // namespace stoker
