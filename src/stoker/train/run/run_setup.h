// The parts of a run as a recipe describes them: device, step options, loaders, model. Used for training, evaluation
// and prediction. Nothing here keeps state besides LibTorch's process-wide switches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/step/step.h"
#include "stoker/train/task/task.h"

namespace stoker {

// Picks the device of this rank, and sets LibTorch's threads, determinism and TF32 as the recipe says.
at::Device prepare_device(const Recipe& recipe, const Group& group = Group());

// The ranks' tensors go between their devices from now on (Group::use_device). All ranks must call it.
void connect_devices(const Group& group, const at::Device& device);

// train.precision on the device, of training, evaluation and prediction. An exported graph keeps its own arithmetic
// if it is "auto".
Precision run_precision(const Recipe& recipe, const at::Device& device);

StepOptions step_options(const Recipe& recipe, const Task& task, const at::Device& device);

// The type in which images that the loader normalises go to a GPU (LoaderOptions::planes): that to which a model of the
// recipe casts its input. float32 for a program's model, loss or metrics (`own_parts`) and for an mlp, whose fused step
// reads float32.
DType input_dtype(const Recipe& recipe, const at::Device& device, bool own_parts);

// Loads the slices of this rank.
std::unique_ptr<Loader> make_train_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                          bool channels_last, const Group& group = Group(),
                                          DType planes = DType::float32);
// For one pass in order; `restore` begins the next. `data.train` may be null. `channels`: the model's input channels;
// 0: not known.
std::unique_ptr<Loader> make_val_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                        bool channels_last, std::int64_t channels, const Group& group = Group());

// The smallest batch size from `samples` on that the ranks can share, for what does not depend on it.
std::int64_t shared_batch_size(std::int64_t samples, const Group& group);

// Whether images lie channels-last in memory; `model` is null where it has not been made from the recipe yet.
bool uses_channels_last(const Recipe& recipe, const Model* model);

// Prepares a model for training: loads model.weights unless a checkpoint has the weights (`resumes`), freezes
// parameters, enables gradient checkpointing, moves it to the device. Returns the names of the tensors for which
// model.weights had another number of classes. Throws InvalidArgument for a model that has nothing to train.
std::vector<std::string> prepare_model(Model& model, const Recipe& recipe, std::int64_t outputs,
                                       const at::Device& device, bool resumes);

// The size that images must have after data.val_ops, which is the training images' size, if the ops do not give all
// images one size. Empty if they do, or if the model's file does not have the size.
std::optional<ImageSize> required_size(const DataRecipe& recipe, const ModelMetadata& metadata);

// For predictions: one pass in order over data that may have no labels. Any number of samples may be bad, and images of
// another than the required size are.
std::unique_ptr<Loader> make_predict_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                            const at::Device& device, bool channels_last, const ModelMetadata& metadata,
                                            const Group& group = Group());

// The task of trained weights, without a data set that has targets: the model's inputs, and its outputs, for images
// (C, H, W), or (T) tokens. `classes`: of a classification.
Task trained_task(const Recipe& recipe, const ModelMetadata& metadata, const Shape& input, std::int64_t classes);

// The recipe's model with a checkpoint's weights, on `device`, for the task's inputs; `specs`: the fields of the
// batches, for a model of several inputs. Sets `task.outputs` as require_outputs does. Throws InvalidArgument where it
// was trained on images with another number of channels, or is another model.
std::unique_ptr<Model> make_trained_model(const Recipe& recipe, const ModelFile& weights, Task& task,
                                          const at::Device& device, std::span<const FieldSpec> specs);

}  // namespace stoker
