// Digits as MNIST's IDX files, for `stoker synth digits` and for the Python side of `stoker bench ladder`.
#pragma once

#include <filesystem>

#include "cli/terminal/progress.h"
#include "stoker/formats/open.h"

namespace stoker::cli {

// Writes the raw images of `dataset`, all of one size, and their labels as one split of MNIST.
// Throws Interrupted after a signal, and what reading and writing throw.
void write_mnist_split(const Dataset& dataset, Split split, const std::filesystem::path& folder, ProgressBar& progress);

}  // namespace stoker::cli
