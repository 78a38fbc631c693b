// The task of a run: the fields of a batch that it reads, the meaning of the model's outputs, the loss and the metrics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/bridge/device_copier.h"
#include "stoker/models/loss.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

enum class TaskKind : std::uint8_t { classification, multilabel, regression, segmentation, language, custom };

std::string_view task_name(TaskKind kind);
// Throws InvalidArgument for an unknown name.
TaskKind task_named(std::string_view name);

// A metric of your own: the mean of `function` over all samples. It returns one number for each sample, (N) or (N, 1),
// or for a batch, which then counts as often as it has samples.
struct CustomMetric {
    std::string name;  // a recipe's train.keep_best takes it as "val_NAME"
    LossFunction function;
    bool higher_is_better = true;
};

// A loss and metrics of your own. Both see all fields of the batch that have a fixed shape (DeviceBatch::field), and
// float32 outputs in any precision of the run. They are tried once before it, on zeros.
struct CustomTask {
    LossFunction loss = nullptr;
    std::vector<CustomMetric> metrics = {};
};

// The shapes are of one sample. The model's input, the target and the outputs are, for
//   classification   images (C, H, W), a class (), outputs (K)
//   multilabel       images, 0 or 1 for each of K labels as float32 (K), outputs (K)
//   regression       images, K values as float32 (K), K outputs
//   segmentation     images, the class of each pixel (H, W), outputs (K, H, W)
//   language         tokens (T), the token after each of them (T), outputs (T, K)
//   custom           images, the label (), anything
struct Task {
    TaskKind kind = TaskKind::classification;
    BatchFields fields = {};
    Shape input = {};
    Shape target = {};
    std::int64_t outputs = 0;  // K; 0: not known before the model has run
    // Names of outputs, from the field that the task learns: of its classes, or of the table's columns that it was read
    // from. Data may have fewer names than `outputs`, or none.
    std::vector<std::string> classes = {};
    std::vector<std::int64_t> mask_values = {};  // what masks store for each class; empty: its number
    LossOptions loss = {};                       // of training; evaluation is without smoothing, weights and gamma
    std::vector<CustomMetric> metrics = {};
    std::vector<FieldSpec> more = {};      // those of fields.more
    std::vector<std::string> inputs = {};  // of them, those that the model takes in addition to `input`

    bool classifies() const { return kind == TaskKind::classification; }
    // True for outputs that only the user's own model has.
    bool needs_own_model() const { return kind == TaskKind::segmentation || kind == TaskKind::language; }
};

// The task of `recipe` on the batches of `loader`: the target is the first further field of the task's kind. The loss
// gets its weights later. Throws InvalidArgument if the data lack this field, or if its shape differs between
// samples; for classification what class_count throws.
Task make_task(const Recipe& recipe, const Loader& loader, const CustomTask& custom = {});

// Adds the fields that a model takes in addition to the task's input (Model::inputs) to the batches on the device;
// `specs` are the loader's. Throws InvalidArgument for a name that is not a field, and for a field of any length.
void add_inputs(Task& task, std::span<const std::string> names, std::span<const FieldSpec> specs);

// Sets the weights of train.class_weights, on `device`. Throws InvalidArgument for another number than `task.outputs`,
// and for "balanced" where the labels of `dataset` are not known without reading it.
void set_weights(Task& task, const ClassWeights& weights, const Dataset& dataset, const at::Device& device);

// Values in float64, as text and JSON have them, become float32, which models and losses take.
void cast_doubles(DeviceBatch& batch);

// Brings a copied batch into the task's shapes and types, on its device.
void prepare(const Task& task, DeviceBatch& batch);

// A batch of zeros as `prepare` leaves it.
DeviceBatch zero_batch(const Task& task, std::int64_t samples, const at::Device& device);
// The same for a measurement: an input of floats is drawn from the standard normal distribution.
DeviceBatch random_batch(const Task& task, std::int64_t samples, const at::Device& device);

// model.classes, or the number of classes in the data. Throws InvalidArgument where the data has more.
std::int64_t class_count(const Recipe& recipe, const Dataset& dataset);

}  // namespace stoker
