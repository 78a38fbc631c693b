#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/optimizer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/bridge/tensor.h"
#include "stoker/monitor/counter_text.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/train/run/image_options.h"
#include "stoker/train/run/model_checks.h"

namespace stoker {
namespace {

constexpr std::int64_t kAsRead = 0;  // channels as data.channels says

// The channels that evaluation gives the main image are not those of further images.
void set_transform_of_fields(const Dataset& dataset, const std::shared_ptr<const Transform>& transform,
                             LoaderOptions& options) {
    for (const Field& field : dataset.fields()) {
        if (field.kind != FieldKind::image) {
            continue;
        }
        auto own = std::ranges::find(options.fields, field.name, &FieldOptions::name);
        if (own == options.fields.end()) {
            own = options.fields.insert(own, {.name = field.name});
        }
        if (own->transform == nullptr) {
            own->transform = transform;
        }
    }
}

constexpr int kDrawers = 2;  // workers, if they only draw: the images are on the device

std::unique_ptr<Loader> make_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                    const std::vector<OpSpec>& ops, LoaderOptions options, const at::Device& device,
                                    bool channels_last, std::int64_t channels, const Group& group) {
    if (options.buckets == nullptr && options.batch_size % group.size() != 0) {
        throw InvalidArgument({.where = "data.batch_size",
                               .expected = fmt::format("a multiple of the {} ranks", group.size()),
                               .got = fmt::to_string(options.batch_size)});
    }
    options.rank = group.rank();
    options.world_size = group.size();
    options.workers = recipe.data.workers.value_or(auto_workers(device.is_cuda()));
    options.layout = channels_last ? Layout::hwc : Layout::chw;
    options.allocator = &slot_allocator(device, recipe.data.pin_memory);
    options.held = options.allocator->pinned() ? DeviceCopier::kSlots : 0;
    TransformOptions with = transform_options(recipe.data);
    with.channels = channels == kAsRead ? with.channels : channels;
    if (with.channels != transform_options(recipe.data).channels) {
        set_transform_of_fields(*dataset, std::make_shared<const Transform>(ops, transform_options(recipe.data)),
                                options);
    }
    Transform transform(ops, with);
    if (recipe.data.cache == "device") {
        cache_on_device(*dataset, transform, ops, device, options);
    }
    if (std::holds_alternative<IndexedImages>(options.images) && !recipe.data.workers) {
        options.workers = std::min(options.workers, kDrawers);
    }
    if (recipe.data.decode_on == "device") {
        decode_on_device(*dataset, transform, ops, device, options);
    } else if (recipe.data.decode_on == "auto") {
        share_decoding(*dataset, transform, ops, device, options);
    }
    if (auto* const pixels = std::get_if<PixelImages>(&options.images); pixels != nullptr && device.is_cuda()) {
        pixels->dtype.reset();  // they travel as bytes; on a CPU the loader normalises them
    }
    return std::make_unique<Loader>(dataset, std::move(transform), options);
}

// Labels are classes in a classification only.
std::int64_t checked_classes(const Recipe& recipe, const Dataset& dataset) {
    return task_named(recipe.task) == TaskKind::classification ? class_count(recipe, dataset) : 0;
}

std::optional<at::ScalarType> gradient_type(const std::string& name) {
    return name == "bf16" ? std::optional(at::kBFloat16) : name == "fp16" ? std::optional(at::kHalf) : std::nullopt;
}

}  // namespace

Precision run_precision(const Recipe& recipe, const at::Device& device) {
    const bool keeps_its_own = !recipe.model.exported.empty() && recipe.train.precision == "auto";
    return choose_precision(keeps_its_own ? "fp32" : recipe.train.precision, device);
}

at::Device prepare_device(const Recipe& recipe, const Group& group) {
    const at::Device device = pick_device(recipe.device, group.local_rank());
    at::set_num_threads(recipe.train.threads.value_or(cpu_cores().usable));
    at::Context& context = at::globalContext();
    if (recipe.train.deterministic && device.is_cuda()) {
        ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // without it LibTorch refuses cuBLAS
    }
    context.setDeterministicAlgorithms(recipe.train.deterministic, /*warn_only=*/false);
    context.setBenchmarkCuDNN(false);  // a step switches it on where it pays
    const Precision precision = run_precision(recipe, device);
    context.setAllowTF32CuDNN(precision.tf32);
    context.setAllowTF32CuBLAS(precision.tf32);
    return device;
}

void connect_devices(const Group& group, const at::Device& device) {
    const std::optional<CudaDevice> gpu = device_properties(device);
    // Like NCCL, by host and board; MIG partitions of a board have different UUIDs.
    const auto boot = read_counter_file("/proc/sys/kernel/random/boot_id");
    group.use_device(device, !gpu ? "" : boot ? *boot + gpu->bus_id : gpu->uuid);
}

StepOptions step_options(const Recipe& recipe, const Task& task, const at::Device& device) {
    const TrainRecipe& train = recipe.train;
    return {.precision = run_precision(recipe, device),
            .accumulate = std::min(train.accumulate, recipe.data.batch_size),
            .clip_norm = train.clip_norm,
            .clip_value = train.clip_value,
            .loss = task.loss,
            .ema = train.ema,
            .scaler = {.initial_scale = train.loss_scale, .growth_interval = train.loss_scale_interval},
            .compile = train.compile != "none",
            .cudnn_benchmark = !train.deterministic,
            .soft_targets = train.mixup > 0 || train.cutmix > 0,
            .sync_batch_norm = train.sync_batch_norm,
            .compress_gradients = gradient_type(train.compress_gradients)};
}

DType input_dtype(const Recipe& recipe, const at::Device& device, bool own_parts) {
    const ModelRecipe& model = recipe.model;
    const bool casts = !own_parts && model.script.empty() && model.exported.empty() && model.name != "mlp";
    const std::optional<at::ScalarType> to = run_precision(recipe, device).autocast;
    return casts && to ? dtype_of_scalar(*to) : DType::float32;
}

std::unique_ptr<Loader> make_train_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                          bool channels_last, const Group& group, DType planes) {
    LoaderOptions options = train_loader_options(recipe, data);
    options.planes = planes;
    options.classes = checked_classes(recipe, *data.train);
    auto loader =
        make_loader(recipe, data.train, recipe.data.train_ops, options, device, channels_last, kAsRead, group);
    const Shape& image = loader->image_shape();
    const std::int64_t channels = image.empty() ? kAsRead : channels_in(image);
    if (recipe.data.channels.value_or(channels) != channels) {
        throw InvalidArgument({.where = "data.channels",
                               .expected = fmt::format("the {} of the images", pluralize(channels, "channel")),
                               .got = fmt::to_string(*recipe.data.channels),
                               .hint = "arrays keep their channels, but 3 makes three equal ones of one"});
    }
    return loader;
}

std::unique_ptr<Loader> make_val_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                        bool channels_last, std::int64_t channels, const Group& group) {
    LoaderOptions options = val_loader_options(recipe, data);
    options.views = static_cast<int>(recipe.data.views);  // the loss may read them, and so may the model
    options.classes = checked_classes(recipe, data.train ? *data.train : *data.val);
    return make_loader(recipe, data.val, recipe.data.val_ops, options, device, channels_last, channels, group);
}

std::int64_t shared_batch_size(std::int64_t samples, const Group& group) {
    return (samples + group.size() - 1) / group.size() * group.size();
}

std::optional<ImageSize> required_size(const DataRecipe& recipe, const ModelMetadata& metadata) {
    const Shape input = input_of(metadata);
    if (channels_in(input) == 0 || gives_one_size(make_ops(recipe.val_ops))) {
        return std::nullopt;
    }
    return ImageSize{static_cast<int>(input[input.size() - 2]), static_cast<int>(input.back())};
}

namespace {

// aspect_crop with its square alone: predictions have the order of the data, in which sizes are mixed.
void use_one_aspect(std::vector<OpSpec>& ops) {
    for (OpSpec& op : ops) {
        if (op.name == "aspect_crop") {
            op.options["max_ratio"] = 1.0;
        }
    }
}

}  // namespace

std::unique_ptr<Loader> make_predict_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                            const at::Device& device, bool channels_last, const ModelMetadata& metadata,
                                            const Group& group) {
    Recipe own = recipe;
    own.data.decode_on = "cpu";   // images of any kind
    own.data.jpeg_index = false;  // each image is decoded once
    own.data.bucket_by.clear();
    use_one_aspect(own.data.val_ops);
    for (FieldRecipe& field : own.data.fields.more) {
        if (field.val_ops) {
            use_one_aspect(*field.val_ops);
        }
    }
    LoaderOptions options = val_loader_options(own, {.train = nullptr, .val = dataset});
    options.bad_samples = dataset->size();
    options.replace = false;
    options.size = required_size(own.data, metadata);
    options.channels = channels_of(metadata);
    options.image_sizes = task_named(recipe.task) == TaskKind::segmentation && keep_frame(make_ops(own.data.val_ops));
    return make_loader(own, dataset, own.data.val_ops, options, device, channels_last, channels_of(metadata), group);
}

Task trained_task(const Recipe& recipe, const ModelMetadata& metadata, const Shape& input, std::int64_t classes) {
    Task task{.kind = task_named(recipe.task), .input = input};
    const std::int64_t outputs = outputs_of(metadata);
    task.outputs = task.classifies() ? classes : outputs > 0 ? outputs : recipe.model.classes.value_or(0);
    if (task.kind == TaskKind::segmentation) {
        task.target = input;
        task.target.erase(task.target.end() - 3);  // the channels
    } else if (task.kind == TaskKind::language) {
        task.target = input;
    }
    return task;
}

std::unique_ptr<Model> make_trained_model(const Recipe& recipe, const ModelFile& weights, Task& task,
                                          const at::Device& device, std::span<const FieldSpec> specs) {
    const std::int64_t channels = channels_of(weights.metadata);
    if (channels != 0 && channels != channels_in(task.input)) {
        throw InvalidArgument({.where = weights.path,
                               .expected = fmt::format("images of {}, as in training", pluralize(channels, "channel")),
                               .got = fmt::to_string(channels_in(task.input)),
                               .hint = "arrays have the channels that they were stored with"});
    }
    std::unique_ptr<Model> model = make_model(recipe.model, task.input, task.outputs, recipe.seed, device);
    add_inputs(task, model->inputs(), specs);
    model->load(weights.tensors, weights.path);
    model->to(device, uses_channels_last(recipe, model.get()));
    require_outputs(recipe, *model, task, device);
    return model;
}

bool uses_channels_last(const Recipe& recipe, const Model* model) {
    const bool made_here = recipe.model.script.empty() && recipe.model.exported.empty();
    const bool convolutions = model != nullptr ? model->wants_channels_last() : made_here && recipe.model.name != "mlp";
    return recipe.train.channels_last && convolutions;
}

std::vector<std::string> prepare_model(Model& model, const Recipe& recipe, std::int64_t outputs,
                                       const at::Device& device, bool resumes) {
    if (model.trainable_parameters().empty()) {
        throw InvalidArgument({.where = "model",
                               .expected = "at least one parameter that trains",
                               .got = model.parameters().empty() ? "a model without parameters"
                                                                 : "requires_grad = False for all of them"});
    }
    std::vector<std::string> fresh;
    if (!recipe.model.weights.empty() && !resumes) {
        ModelFile given = read_weights(recipe.model.weights);
        fresh = model.load_pretrained(std::move(given.tensors), outputs, "model.weights: " + given.path);
    }
    model.freeze(recipe.model.freeze);
    require_patterns(model.trainable_parameters(), recipe.optimizer);
    if (recipe.train.gradient_checkpointing) {
        model.enable_gradient_checkpointing();
    }
    if (recipe.train.sync_batch_norm && !model.has_batch_norm()) {
        throw InvalidArgument({.where = "train.sync_batch_norm",
                               .expected = "false, except for convnet and the resnets",
                               .got = "true for a model whose batch norm, if any, is not Stoker's",
                               .hint = "leave it out"});
    }
    model.to(device, uses_channels_last(recipe, &model));
    return fresh;
}

}  // namespace stoker
