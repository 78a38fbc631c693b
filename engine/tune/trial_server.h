// The other end of TrialProcess: answers requests on standard input with measurements on standard output.
#pragma once

#include <optional>
#include <string>

#include "stoker/recipe/recipe.h"
#include "stoker/train/step/optimizer.h"

namespace stoker::cli {

struct TrialOptions {
    Recipe recipe;
    std::int64_t samples = 0;  // uses at most so many samples, spread over the training data; 0: all
    bool probe = false;        // costs one by one instead of training
    OptimizerKernel kernel = OptimizerKernel::fused;
};

// A line of a request: "measure 1.5 0".
struct TrialRequest {
    std::string name;
    double seconds = 0;
    int count = 0;  // of threads or workers
};

// Waits for the next line. Empty at the end of the input and for "quit".
std::optional<TrialRequest> read_request();

// Trains without a run folder and without evaluation; answers "measure". A step that ends after so many seconds ends
// the measurement. Batches that were ready when it began are not counted.
int serve_training(const TrialOptions& options);

// Answers "step S THREADS" (steps on one held batch), "load S WORKERS" (the loader alone) and "fetch S THREADS" (stored
// bytes, from files that are not in the page cache).
int serve_probes(const TrialOptions& options);

}  // namespace stoker::cli
