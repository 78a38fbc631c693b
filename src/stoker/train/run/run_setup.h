// From a recipe to the parts of a run: the device with its switches, loaders that suit it, the number of
// classes. Shared by training and evaluation.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Picks the device and sets LibTorch's threads, determinism, cuDNN search and TF32 as the recipe says. Throws
// Unsupported for several ranks on GPUs.
at::Device prepare_device(const Recipe& recipe, const Group& group = Group());

// The run's precision: that of the recipe, where an exported graph's "auto" is its own.
Precision run_precision(const Recipe& recipe, const at::Device& device);

// Of the recipe, for that device.
StepOptions step_options(const Recipe& recipe, const at::Device& device);

// Of the batches each rank of `group` gets its slice.
std::unique_ptr<Loader> make_train_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                          bool channels_last, const Group& group = Group());
// For one pass in order; `restore` begins the next. `data.train` may be null. `channels`: what the model takes; 0: not
// known.
std::unique_ptr<Loader> make_val_loader(const Recipe& recipe, const RecipeData& data, const at::Device& device,
                                        bool channels_last, std::int64_t channels, const Group& group = Group());

// Whether images lie channels-last in memory; `model` is null where the recipe's is still to be made.
bool uses_channels_last(const Recipe& recipe, const Model* model);

// Brings a model that was made or given to where training begins: weights, unless they come from a checkpoint
// (`resumes`), what is frozen, checkpointed blocks, device and layout. Gives the names of the tensors for which
// model.weights had none that fit. Throws InvalidArgument for a model that has nothing to train.
std::vector<std::string> prepare_model(Model& model, const Recipe& recipe, std::int64_t classes,
                                       const at::Device& device, bool resumes);

// model.classes, or the number of classes in the data. Throws InvalidArgument where the data has more.
std::int64_t class_count(const Recipe& recipe, const Dataset& dataset);

// That images must have as data.val_ops leave them: that of training, where the ops do not give all images one size.
// None where the model's file does not tell it.
std::optional<ImageSize> required_size(const DataRecipe& recipe, const ModelMetadata& about);

// For predictions: one pass in order over data that may have no labels, all of it bad where it must, as images of
// another size than required are.
std::unique_ptr<Loader> make_predict_loader(const Recipe& recipe, const std::shared_ptr<const Dataset>& dataset,
                                            const at::Device& device, bool channels_last, const ModelMetadata& about);

// The recipe's model with a checkpoint's weights, on `device`, for images (C, H, W). Throws InvalidArgument where it
// was trained on images of other channels, or is another model.
std::unique_ptr<Model> make_trained_model(const Recipe& recipe, const ModelFile& weights, const Shape& image,
                                          std::int64_t classes, const at::Device& device);

// Runs one image through a model from a file (model.script, model.export) on `device`. Throws InvalidArgument where it
// does not take images of that shape (C, H, W) or gives other than `classes` logits.
void require_fit(const Recipe& recipe, Model& model, const Shape& image, std::int64_t classes,
                 const at::Device& device);

// Where validation images have another shape (C, H, W) than those of training, runs one of zeros through the model, so
// that a mistake shows before the first epoch and not after it. Throws InvalidArgument where the model does not take
// it.
void require_val_fit(Model& model, const Shape& train, const Shape& val, const at::Device& device);

// Where a run will train on one sample at a time, in an epoch's last batch, say, or on a rank's or a micro-batch's
// share: tries that with an image (C, H, W) of zeros, since a batch norm may have nothing to look at but that one
// value. Throws InvalidArgument where the model does not take it but takes two. The model stays as it is.
void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Shape& image,
                            std::int64_t classes, const at::Device& device);

// Throws InvalidArgument where `data` has classes that are not in `trained`, the classes of the data in `origin`, or
// others. Fewer are fine as long as the labels mean the same.
void require_classes(std::span<const std::string> trained, const std::string& origin, const Dataset& data);

// Throws InvalidArgument for a training set of one class, of which any model's loss is 0; an exported graph has a loss
// of its own.
void require_several_classes(const Recipe& recipe, const Dataset& data);

// Throws InvalidArgument where the validation data has classes that the training data has not, or others.
void require_same_classes(const RecipeData& data);

}  // namespace stoker
