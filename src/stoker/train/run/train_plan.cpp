#include "stoker/train/run/train_plan.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/relabelled.h"
#include "stoker/models/imported_model.h"
#include "stoker/recipe/schema.h"
#include "stoker/train/run/data_checks.h"
#include "stoker/train/run/divided_model.h"
#include "stoker/train/run/model_checks.h"
#include "stoker/train/run/rank_checks.h"
#include "stoker/train/run/run_setup.h"

namespace stoker {
namespace {

// A program may make its recipe without reading one.
void require_valid(const Recipe& recipe) {
    require_known_names(recipe);
    if (const auto conflict = find_conflict(recipe)) {
        throw InvalidArgument({conflict->key, conflict->expected, conflict->got, conflict->hint});
    }
}

std::int64_t elements(const std::vector<NamedTensor>& tensors) {
    std::int64_t count = 0;
    for (const auto& [name, tensor] : tensors) {
        count += tensor.numel();
    }
    return count;
}

// Rank 0 measures the blocks, on as many samples as a micro-batch has; all use its partition.
StagePartition agree_on_partition(const Recipe& recipe, Model& model, const Task& task, const at::Device& device,
                                  const Group& group, const Mesh& mesh) {
    const std::int64_t samples = recipe.data.batch_size / mesh.data->size();
    const std::int64_t parts = std::min(recipe.train.accumulate, samples);
    const at::Tensor seconds = at::zeros({std::ssize(model.blocks())}, at::kDouble);
    if (group.first()) {
        std::ranges::copy(measure_blocks(model, task, samples / parts, run_precision(recipe, device), device),
                          seconds.mutable_data_ptr<double>());
    }
    group.barrier();  // measuring may take longer than the timeout of a step's communication
    group.broadcast({seconds});
    const auto* first = seconds.const_data_ptr<double>();
    return partition_model(model, {first, first + seconds.numel()}, static_cast<std::size_t>(mesh.pipeline->size()));
}

// `val`: the shape of the input of an evaluation, whose images may have another size.
ModelStage keep_stage_of(const StagePartition& partition, Model& model, const Task& task, const Shape& val,
                         const Precision& precision, const at::Device& device, const Group& stages) {
    const auto stage = static_cast<std::size_t>(stages.rank());
    ModelStage own{.partition = partition,
                   .train = stage_shapes(model, partition, stage, task, task.input, precision, device),
                   .val = stage_shapes(model, partition, stage, task, val, precision, device)};
    model.keep_blocks(partition.firsts[stage], partition.end(stage));
    return own;
}

// A copy of the recipe's model on each GPU but `device`.
std::vector<std::unique_ptr<Model>> make_replicas(const Recipe& recipe, const Task& task, bool own_model,
                                                  const at::Device& device, const Group& group) {
    const int devices = device.is_cuda() ? cuda_device_count() : 1;
    if (own_model || !group.alone() || devices < 2) {
        throw InvalidArgument({.where = "train.data_parallel",
                               .expected = "one process, several GPUs and a model that the recipe names",
                               .got = own_model        ? "the program's own model"
                                      : !group.alone() ? fmt::format("{} processes", group.size())
                                                       : fmt::format("a run on {}", device.str()),
                               .hint = "leave it out; `stoker launch --nproc-per-node N` trains with a process for "
                                       "each device, which is faster"});
    }
    std::vector<std::unique_ptr<Model>> replicas;
    for (int i = 0; i < devices; ++i) {
        const at::Device other(at::kCUDA, static_cast<c10::DeviceIndex>(i));
        if (other != device) {
            replicas.push_back(make_model(recipe.model, task.input, task.outputs, recipe.seed, other));
            prepare_model(*replicas.back(), recipe, task.outputs, other, /*resumes=*/true);
        }
    }
    return replicas;
}

}  // namespace

StepRanks TrainPlan::step_ranks() const {
    StepRanks ranks{.data = mesh.data.get(), .tensor = mesh.tensor.get(), .full = full.get()};
    if (stage) {
        ranks.stage = StagePlan{
            .stages = mesh.pipeline.get(), .order = pipeline_order(recipe.train.pipeline), .shapes = stage->train};
    }
    return ranks;
}

TrainPlan plan_training(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, bool resumes,
                        std::shared_ptr<Group> group, const CustomTask& custom) {
    require_valid(recipe);
    const at::Device device = prepare_device(recipe, *group);
    connect_devices(*group, device);  // after the switches: NCCL reads that of determinism
    const Mesh mesh = make_mesh(group, recipe.train.mesh);
    const bool channels_last = uses_channels_last(recipe, model.get());
    const bool own_parts = model != nullptr || custom.loss != nullptr || !custom.metrics.empty();
    auto train =
        make_train_loader(recipe, data, device, channels_last, *mesh.data, input_dtype(recipe, device, own_parts));
    Task task = make_task(recipe, *train, custom);
    const bool own_model = model != nullptr;
    require_task(recipe, task, own_model, data.val != nullptr);
    std::unique_ptr<Loader> val;
    if (data.val != nullptr) {
        const Shape& image = train->image_shape();
        if (task.classifies() || task.kind == TaskKind::custom) {  // a user's loss may also read labels
            data.val = match_classes(data.train->classes(), data.train->path(), data.val, data.train->fields());
        }
        val = make_val_loader(recipe, data, device, channels_last, channels_in(image), *mesh.data);
    }
    std::string model_hash = imported_model_hash(recipe.model);
    if (model == nullptr) {
        model = make_model(recipe.model, task.input, task.outputs, recipe.seed, device);
    }
    if (!mesh.tensor->alone()) {
        model->division(mesh.tensor->size());  // refuses it before the other checks, which take longer
    }
    add_inputs(task, model->inputs(), train->field_specs());
    require_inputs(recipe, *model, task);
    auto new_tensors = prepare_model(*model, recipe, task.outputs, device, resumes);
    if (!mesh.pipeline->alone()) {
        require_stages(*model, mesh.pipeline->size());
    }
    require_same_recipe(*group, recipe, *train, val.get());
    require_several_classes(recipe, task, *data.train);
    require_mask_classes(recipe, task, *data.train);
    require_outputs(recipe, *model, task, device);
    set_weights(task, recipe.train.class_weights, *data.train, device);
    require_smallest_batch(recipe, *model, train->batch_sampler(), task, device);
    require_own_parts(recipe, *model, task, own_model, device);
    for (const Shape& shape : image_shapes(*train)) {
        require_images(*model, task, shape, device, "data.train_ops");
    }
    if (val != nullptr) {
        for (const Shape& shape : image_shapes(*val)) {
            require_images(*model, task, shape, device, "data.val_ops");
        }
        require_val_samples(recipe, *val, task);
    }
    const std::int64_t parameters = elements(model->parameters());
    const std::int64_t trained = elements(model->trainable_parameters());
    StagePartition partition;
    if (!mesh.pipeline->alone()) {
        partition = agree_on_partition(recipe, *model, task, device, *group, mesh);
    }
    divide_model(*model, *group, mesh);
    std::optional<ModelStage> stage;
    if (!mesh.pipeline->alone()) {
        const bool images = val != nullptr && task.fields.input == kImageField;
        const Shape& evaluated = images ? val->image_shape() : task.input;
        stage =
            keep_stage_of(partition, *model, task, evaluated, run_precision(recipe, device), device, *mesh.pipeline);
    }
    std::unique_ptr<FullyShardedModel> full;
    if (recipe.train.shard == "full" && !mesh.data->alone()) {
        full = std::make_unique<FullyShardedModel>(*model, *mesh.data);
    }
    std::vector<std::unique_ptr<Model>> replicas;
    if (recipe.train.data_parallel) {
        replicas = make_replicas(recipe, task, own_model, device, *group);
    }
    return {.group = std::move(group),
            .mesh = mesh,
            .recipe = recipe,
            .data = std::move(data),
            .device = device,
            .train_loader = std::move(train),
            .val_loader = std::move(val),
            .task = std::move(task),
            .model = std::move(model),
            .own_model = own_model,
            .replicas = std::move(replicas),
            .full = std::move(full),
            .stage = std::move(stage),
            .parameters = parameters,
            .trained_parameters = trained,
            .has_weights = recipe.model.weights.empty() || !resumes,
            .model_hash = std::move(model_hash),
            .new_tensors = std::move(new_tensors)};
}

}  // namespace stoker
