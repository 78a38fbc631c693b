#include "stoker/train/run/train_plan.h"

#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/relabelled.h"
#include "stoker/models/imported_model.h"
#include "stoker/recipe/schema.h"
#include "stoker/train/run/divided_model.h"
#include "stoker/train/run/model_checks.h"
#include "stoker/train/run/rank_checks.h"
#include "stoker/train/run/run_setup.h"

namespace stoker {
namespace {

// A program may make its recipe without reading one.
void require_no_conflict(const Recipe& recipe) {
    if (const auto conflict = find_conflict(recipe)) {
        throw InvalidArgument({conflict->key, conflict->expected, conflict->got, conflict->hint});
    }
}

}  // namespace

TrainPlan plan_training(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, bool resumes,
                        std::shared_ptr<Group> group, const CustomTask& custom) {
    require_no_conflict(recipe);
    const at::Device device = prepare_device(recipe, *group);
    const Mesh mesh = make_mesh(group, recipe.train.mesh);
    const bool channels_last = uses_channels_last(recipe, model.get());
    auto train = make_train_loader(recipe, data, device, channels_last, *mesh.data);
    Task task = make_task(recipe, *train, custom);
    require_task(recipe, task, model != nullptr, data.val != nullptr);
    std::unique_ptr<Loader> val;
    if (data.val != nullptr) {
        const Shape& image = train->image_shape();
        data.val = match_classes(data.train->classes(), data.train->path(), data.val);
        val = make_val_loader(recipe, data, device, channels_last, image.empty() ? 0 : image.front(), *mesh.data);
    }
    std::string model_hash = imported_model_hash(recipe.model);
    if (model == nullptr) {
        model = make_model(recipe.model, task.input, task.outputs, recipe.seed, device);
    }
    if (!mesh.tensor->alone()) {
        model->division(mesh.tensor->size());  // refuses it before the other checks, which take longer
    }
    add_inputs(task, model->inputs(), train->field_specs());
    require_inputs(recipe, *model);
    auto new_tensors = prepare_model(*model, recipe, task.outputs, device, resumes);
    require_same_recipe(*group, recipe, *train, val.get());
    require_several_classes(recipe, task, *data.train);
    require_outputs(recipe, *model, task, device);
    set_weights(task, recipe.train.class_weights, *data.train, device);
    require_smallest_batch(recipe, *model, train->batch_sampler(), task, device);
    if (val != nullptr) {
        require_val_images(*model, task, val->image_shape(), device);
        require_val_samples(recipe, *val, task);
    }
    divide_model(*model, *group, mesh);
    return {.group = std::move(group),
            .mesh = mesh,
            .recipe = recipe,
            .data = std::move(data),
            .device = device,
            .train_loader = std::move(train),
            .val_loader = std::move(val),
            .task = std::move(task),
            .model = std::move(model),
            .has_weights = recipe.model.weights.empty() || !resumes,
            .model_hash = std::move(model_hash),
            .new_tensors = std::move(new_tensors)};
}

}  // namespace stoker
