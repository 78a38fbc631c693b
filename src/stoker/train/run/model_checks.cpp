#include "stoker/train/run/model_checks.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/imported_model.h"
#include "stoker/train/run/best_epoch.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/forward_snapshot.h"
#include "stoker/train/task/scores.h"

namespace stoker {
namespace {

// How a batch is divided: into slices of the ranks, and those into micro-batches, each as even as possible.
struct Division {
    std::int64_t ranks = 1;
    std::int64_t accumulate = 1;
    bool synced = false;  // batch norm takes the ranks' micro-batches together
};

// The size of the smallest micro-batch of a batch, on any rank that has samples of it.
std::int64_t smallest_part(std::int64_t samples, const Division& division) {
    const std::int64_t ranks = division.ranks;
    if (!division.synced) {
        const std::int64_t slice = std::max<std::int64_t>(samples / ranks, 1);
        return slice / std::min(division.accumulate, slice);
    }
    const std::int64_t parts = std::min(division.accumulate, (samples - 1) / ranks + 1);
    std::int64_t smallest = samples;
    for (std::int64_t part = 0; part < parts; ++part) {
        std::int64_t together = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const std::int64_t slice = samples * (rank + 1) / ranks - samples * rank / ranks;
            together += slice * (part + 1) / parts - slice * part / parts;
        }
        smallest = std::min(smallest, together);
    }
    return smallest;
}

// Tries a training forward pass. Returns what the model throws, or an empty string. Too little memory says nothing
// about the model: it is thrown.
std::string forward_error(std::int64_t samples, Model& model, const Task& task, const at::Device& device,
                          const StepOptions& options) {
    const c10::NoGradGuard no_grad;
    const Autocast autocast(options.precision, device);
    DeviceBatch batch = zero_batch(task, samples, device);
    if (options.soft_targets) {
        batch.target = at::zeros({samples, task.outputs}, device);
    }
    try {
        model.loss(batch, options.loss);
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        const std::string text = first_sentence(first_line_of(error));
        return text.substr(0, text.find("; "));  // without the model's hint, which fits another situation
    }
    return "";
}

constexpr std::int64_t kAny = -1;

// kAny: any number of classes.
Shape wanted_outputs(const Task& task, std::int64_t samples) {
    const std::int64_t k = task.outputs > 0 ? task.outputs : kAny;
    switch (task.kind) {
        case TaskKind::segmentation: {
            Shape shape = {samples, k};
            shape.insert(shape.end(), task.target.begin(), task.target.end());
            return shape;
        }
        case TaskKind::language:
            return {samples, task.target[0], k};
        default:
            return {samples, k};
    }
}

bool fit(const at::Tensor& outputs, const Task& task, std::int64_t samples) {
    if (task.kind == TaskKind::custom) {
        return true;
    }
    if (outputs.scalar_type() != at::kFloat) {
        return false;
    }
    if (task.kind == TaskKind::regression) {
        return outputs.numel() == samples * task.outputs;
    }
    return std::ranges::equal(
        outputs.sizes(), wanted_outputs(task, samples),
        [](std::int64_t own, std::int64_t wanted) { return wanted == kAny ? own > 0 : own == wanted; });
}

std::string describe_outputs(const Task& task, std::int64_t samples) {
    const auto count = [&](const char* what) {
        return samples == 1 ? fmt::format("one {}", what) : pluralize(samples, what);
    };
    if (task.classifies()) {
        return fmt::format("float logits [{}, {}] for {} and {} classes", samples, task.outputs, count("image"),
                           task.outputs);
    }
    std::vector<std::string> sides;
    for (const std::int64_t side : wanted_outputs(task, samples)) {
        sides.push_back(side == kAny ? "classes" : fmt::to_string(side));
    }
    return fmt::format("float outputs [{}] for {}, as {} needs", fmt::join(sides, ", "), count("sample"),
                       task_name(task.kind));
}

// `where`: of the model, for messages. `run` returns the model's outputs for `samples`.
at::Tensor try_outputs(const char* where, const Task& task, std::int64_t samples,
                       const std::function<at::Tensor()>& run) {
    at::Tensor outputs;
    try {
        outputs = run();
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        const std::string inputs = task.kind == TaskKind::language    ? "tokens"
                                   : task.fields.input == kImageField ? "images"
                                                                      : task.fields.input;
        throw InvalidArgument(
            {.where = where,
             .expected = fmt::format("a model that takes {} ({})", inputs, fmt::join(task.input, ", ")),
             .got = first_sentence(error.what_without_backtrace()),
             .hint = "change data.train_ops and data.val_ops, or the model"});
    }
    if (!fit(outputs, task, samples)) {
        throw InvalidArgument(
            {.where = where,
             .expected = describe_outputs(task, samples),
             .got = fmt::format("{} [{}]", at::toString(outputs.scalar_type()), fmt::join(outputs.sizes(), ", ")),
             .hint = task.classifies() ? "the model's last layer must have as many outputs as the data has classes, "
                                         "or as model.classes says"
                                       : ""});
    }
    return outputs;
}

std::string metric_names(const Task& task) {
    std::string names = "val_loss";
    for (const Metric& metric : metrics_of(task)) {
        names += ", val_" + metric.name;
    }
    return names;
}

}  // namespace

void require_outputs(const Recipe& recipe, Model& model, Task& task, const at::Device& device) {
    const char* file_key = imported_model_key(recipe.model);
    if (file_key == nullptr && !task.needs_own_model()) {
        return;
    }
    const char* where = file_key == nullptr ? "model" : file_key;
    for (const NamedTensor& entry : model.state()) {
        dtype_of_scalar(entry.tensor.scalar_type());  // throws for a type that a checkpoint cannot hold
    }
    const c10::NoGradGuard no_grad;
    model.train(false);
    const at::Tensor outputs = try_outputs(where, task, 1, [&] { return model.outputs(zero_batch(task, 1, device)); });
    model.train(true);
    if (task.needs_own_model()) {
        task.outputs = outputs.size(task.kind == TaskKind::language ? 2 : 1);
    }
}

void require_own_parts(const Recipe& recipe, Model& model, const Task& task, bool own_model, const at::Device& device) {
    const bool own_functions = task.loss.function != nullptr;
    if (!own_model && !own_functions) {
        return;
    }
    ForwardSnapshot before(model, device);
    before.save();
    const std::int64_t samples = std::min<std::int64_t>(2, recipe.data.batch_size);
    DeviceBatch batch = zero_batch(task, samples, device);
    const at::Tensor outputs = try_outputs("model", task, samples, [&] {
        return evaluation_outputs(model, batch, run_precision(recipe, device), device);
    });
    try {
        if (own_functions) {
            make_scores(task, device)->add(outputs, batch);
        }
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument(
            {.where = "task",
             .expected = fmt::format("a loss and metrics that take outputs [{}] and the batch's fields",
                                     fmt::join(outputs.sizes(), ", ")),
             .got = first_sentence(error.what_without_backtrace())});
    }
    before.restore();
}

void require_inputs(const Recipe& recipe, const Model& model, const Task& task) {
    const TrainRecipe& train = recipe.train;
    if (!model.inputs().empty() && (train.mixup > 0 || train.cutmix > 0)) {
        throw InvalidArgument({.where = train.mixup > 0 ? "train.mixup" : "train.cutmix",
                               .expected = "0 for a model of several inputs",
                               .got = fmt::to_string(std::max(train.mixup, train.cutmix)),
                               .hint = "it would mix the image alone"});
    }
    if (task.kind != TaskKind::custom && std::ranges::count(task.inputs, task.fields.target) > 0) {
        throw InvalidArgument({.where = "model",
                               .expected = fmt::format("inputs beside the target {}", task.fields.target),
                               .got = fmt::format("{}", fmt::join(model.inputs(), ", ")),
                               .hint = "the target is the first field of the task's kind: name another one before it"});
    }
}

std::vector<Shape> image_shapes(const Loader& loader) {
    const std::vector<ImageSize>& sizes = loader.options().bucket_sizes;
    if (sizes.empty()) {
        return {loader.image_shape()};
    }
    std::vector<Shape> shapes;
    for (const auto [height, width] : sizes) {
        Shape& shape = shapes.emplace_back(loader.image_shape());
        shape[shape.size() - 2] = height;
        shape.back() = width;
    }
    return shapes;
}

void require_images(Model& model, const Task& task, const Shape& shape, const at::Device& device, const char* key) {
    if (task.fields.input != kImageField || shape == task.input) {
        return;
    }
    const bool of_buckets = std::string_view(key) == "data.train_ops";  // others have the task's shape
    const c10::NoGradGuard no_grad;
    const bool training = model.training();
    model.train(false);
    Task other = task;
    other.input = shape;
    try {
        model.outputs(zero_batch(other, 1, device));
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = key,
                               .expected = fmt::format("images that the model takes, such as those of training ({})",
                                                       fmt::join(task.input, ", ")),
                               .got = fmt::format("({})", fmt::join(shape, ", ")),
                               .hint = of_buckets ? "leave out data.bucket_by, or train a model of images of any size, "
                                                    "such as convnet or resnet18"
                                                  : "let data.train_ops and data.val_ops give all images one size, by "
                                                    "center_crop or resize with size = [height, width]: one number "
                                                    "keeps the aspect ratio"});
    }
    model.train(training);
}

void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Task& task,
                            const at::Device& device) {
    const StepOptions options = step_options(recipe, task, device);
    const int ranks = sampler.options().world_size;
    const std::int64_t whole = sampler.options().begins.empty() ? sampler.samples(0) : sampler.options().batch_size;
    const std::int64_t last = sampler.smallest();
    const Division division{.ranks = ranks, .accumulate = options.accumulate, .synced = options.sync_batch_norm};
    const bool in_all = smallest_part(whole, division) == 1;
    if (model.linear_chain() != nullptr || (!in_all && smallest_part(last, division) > 1)) {
        return;
    }
    ForwardSnapshot before(model, device);
    before.save();
    const std::string error = forward_error(1, model, task, device, options);
    const bool two_are_enough = !error.empty() && forward_error(2, model, task, device, options).empty();
    before.restore();
    if (!two_are_enough) {
        return;
    }
    const bool split_too_far =
        smallest_part(in_all ? whole : last, {.ranks = ranks, .synced = options.sync_batch_norm}) > 1;
    const std::string of_ranks = ranks > 1 ? fmt::format(", over {} ranks", ranks) : "";
    const std::string in_parts = options.accumulate > 1 ? fmt::format(", in {} parts", options.accumulate) : "";
    throw InvalidArgument(
        {.where = split_too_far ? "train.accumulate"
                  : in_all      ? "data.batch_size"
                                : "data.drop_last",
         .expected = "at least two samples at a time, without which this model does not train",
         .got = fmt::format("one in {} of {}{}{} ({})",
                            in_all                             ? "a batch"
                            : sampler.options().begins.empty() ? "an epoch's last batch"
                                                               : "the last batch of a size",
                            in_all ? whole : last, of_ranks, in_parts, error),
         .hint = std::string(split_too_far ? "lower it, or " : "") +
                 (in_all ? "set a larger data.batch_size" : "set data.drop_last = true, or another data.batch_size")});
}

void require_task(const Recipe& recipe, const Task& task, bool own_model, bool evaluates) {
    const bool built_in = !own_model && imported_model_key(recipe.model) == nullptr;
    const bool pixels = task.kind == TaskKind::segmentation;
    if (built_in && task.needs_own_model() && !(pixels && gives_pixels(recipe.model))) {
        throw InvalidArgument(
            {.where = "model.name",
             .expected = fmt::format("{}a model of your own for {}, whose outputs are {}: model.script or model.export",
                                     pixels ? "fcn_resnet50, or " : "", task_name(task.kind),
                                     pixels ? "(N, K, H, W)" : "(N, T, K)"),
             .got = fmt::format("{}, which gives one answer for an image", recipe.model.name)});
    }
    if (built_in && pixels && task.outputs == 0) {
        throw InvalidArgument(
            {.where = "model.classes",
             .expected = "the number of classes in the masks",
             .got = "auto, and neither data.fields." + task.fields.target + ".values nor names of classes in the data",
             .hint = "set it, or list the masks' values there; `stoker inspect` counts them"});
    }
    if (built_in && !pixels && gives_pixels(recipe.model)) {
        throw InvalidArgument(
            {.where = "model.name",
             .expected = fmt::format("a model with one answer for an image, as {} needs", task_name(task.kind)),
             .got = recipe.model.name + ", which gives a class for each pixel",
             .hint = "set another model, or task = \"segmentation\""});
    }
    const bool has_loss = !own_model && !recipe.model.exported.empty();
    if (task.kind == TaskKind::custom && task.loss.function == nullptr && has_loss) {
        if (evaluates) {
            throw InvalidArgument({.where = "data.val",
                                   .expected = "none, as the loss of an exported model is for training",
                                   .got = "validation data in the task custom",
                                   .hint = "leave it out"});
        }
    } else if (task.kind == TaskKind::custom && task.loss.function == nullptr) {
        throw InvalidArgument({.where = "task",
                               .expected = "a loss of your own for custom",
                               .got = "none",
                               .hint = "export a model with its loss and set model.export, or pass one to Trainer in a "
                                       "C++ program (docs/cpp.md)"});
    }
    if (task.loss.function != nullptr && has_loss) {
        throw InvalidArgument({.where = "model.export",
                               .expected = "a model without a loss, for the loss of your own",
                               .got = "an exported one, whose graph has the loss",
                               .hint = "set model.script, or export the model with this loss"});
    }
    if (task.kind == TaskKind::custom && built_in && task.outputs == 0) {
        throw InvalidArgument({.where = "model.classes",
                               .expected = "the number of outputs of the model",
                               .got = "none",
                               .hint = "or give Trainer a model of your own"});
    }
    const std::string& best = recipe.train.keep_best;
    if (!evaluates && (!best.empty() || recipe.train.early_stop > 0)) {
        throw InvalidArgument({.where = best.empty() ? "train.early_stop" : "train.keep_best",
                               .expected = "validation data",
                               .got = "none",
                               .hint = "set data.val to a data set or to a share of train such as \"10%\""});
    }
    if (!best.empty() && !best_by(task, best)) {
        throw InvalidArgument({.where = "train.keep_best", .expected = metric_names(task), .got = best});
    }
}

}  // namespace stoker
