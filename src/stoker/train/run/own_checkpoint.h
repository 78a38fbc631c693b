// Saves and resumes a training loop of your own, of one process: model, optimiser, loss scaler, averaged weights and
// the loader's position. The files are those of a run's checkpoints, so find_checkpoint, read_model and model.weights
// take them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Writes model, optimiser, scaler, averages and the loader's position after `steps` into the folder `path`, in place of
// an earlier checkpoint there: a program that is killed meanwhile leaves the earlier one. Waits for the device. Throws
// IoError.
void save_checkpoint(const std::filesystem::path& path, std::int64_t steps, const Model& model, const Step& step,
                     const Loader& loader);

// Takes up the state that save_checkpoint wrote to `path`, also that of the step's optimiser, and returns its steps;
// without a checkpoint returns 0 and changes nothing. The loader continues with the next batch; the model's random
// numbers continue with seed_step (train/step/seed_step.h). Throws InvalidArgument for a checkpoint of another model,
// optimiser, step or order of the data, and IoError or DataError for one that cannot be read.
std::int64_t resume_from(const std::filesystem::path& path, Model& model, Step& step, Loader& loader);

}  // namespace stoker
