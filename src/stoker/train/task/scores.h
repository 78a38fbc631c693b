// Loss and metrics of an evaluation, exact over all samples of all ranks. Sums stay on the device until the end, so no
// batch waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/records/records.h"
#include "stoker/train/task/task.h"

namespace stoker {

// What an evaluation has found.
struct Figures {
    double loss = 0;
    std::vector<Metric> metrics = {};  // the main one first
    // (classes, classes), samples by label, then by prediction; of classification, if it was asked for
    std::vector<std::int64_t> confusion = {};
};

// Sums over the batches of an evaluation.
class Scores {
  public:
    virtual ~Scores() = default;
    // The model's outputs for a batch of at least one sample. All that needs memory comes before the first sum: a call
    // that runs out of memory may be repeated.
    virtual void add(const at::Tensor& outputs, const DeviceBatch& batch) = 0;
    // Reads this rank's sums, and waits for the device. Once, after the last batch.
    virtual void fetch() = 0;
    // Over all ranks, which all call it. After `fetch`.
    virtual Figures figures(const Group& group) = 0;
};

// `confusion`: also the confusion matrix of a classification.
std::unique_ptr<Scores> make_scores(const Task& task, const at::Device& device, bool confusion = false);

// F1 and mean average precision of several labels a sample. A label is predicted if its probability is above a half.
// Keeps the outputs of all samples until the end, since average precision sorts them: five bytes for each label of each
// sample, on the device.
std::unique_ptr<Scores> make_multilabel_scores(const Task& task, const at::Device& device);

// MAE, RMSE and R2 of numbers. RMSE and R2 are means over the values of a sample, as sklearn.metrics has them
// (root_mean_squared_error, r2_score).
std::unique_ptr<Scores> make_regression_scores(const Task& task, const at::Device& device);

// The metrics of a task, with values of 0.
std::vector<Metric> metrics_of(const Task& task);
// Sets `higher_is_better` of metrics that were read from a file.
void set_directions(const Task& task, std::vector<Metric>& metrics);

// The area under precision by recall of one class: the sum of (R_n - R_n-1) P_n over the thresholds, as
// sklearn.metrics.average_precision_score has it. `scores` must not be NaN. Not a number without a positive sample.
double average_precision(std::span<const float> scores, std::span<const std::uint8_t> positive);

}  // namespace stoker
