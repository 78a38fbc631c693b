// A small training for tests: 4x4 images of four learnable classes, a network of a few neurons, and helpers to compare
// runs.
#pragma once

#include <functional>
#include <gtest/gtest.h>

#include "stoker/train/trainer.h"
#include "support/temp_dir.h"

namespace stoker::testing {

class SquareDataset final : public Dataset {
  public:
    explicit SquareDataset(std::int64_t size, std::uint64_t seed = 1) : size_(size), seed_(seed) {}

    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override;
    std::span<const std::string> classes() const override { return classes_; }

    std::function<void(std::int64_t)> before_read;

  private:
    std::int64_t size_;
    std::uint64_t seed_;
    std::vector<std::string> classes_ = {"top", "bottom", "left", "right"};
};

// 100 samples in batches of 16: seven steps an epoch, the last of four samples.
inline constexpr std::int64_t kStepsAnEpoch = 7;

Recipe small_recipe(std::int64_t epochs = 3);
RecipeData small_data();

// A linear model with hooks for tests.
class LinearModel final : public Model {
  public:
    LinearModel();
    at::Tensor forward(const at::Tensor& input) override;
    bool wants_channels_last() const override { return true; }
    void add_parameter(const std::string& name, const at::Tensor& value) { parameter(name, value); }
    void add_buffer(const std::string& name, const at::Tensor& value) { buffer(name, value); }

    std::function<void()> before_forward;
    std::function<void(const at::Tensor&)> on_logits;
    std::function<void()> on_gradient;

  private:
    at::Tensor weight_;
};

std::vector<NamedTensor> weights_of(Trainer& trainer);
bool same_weights(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b);

// The figures of epochs that do not depend on time, to the last bit.
std::string figures(const std::vector<EpochResult>& epochs);

std::string text_of(const std::filesystem::path& file);

// The steps and epochs of metrics.jsonl, without what depends on time.
std::string metrics_of(const std::filesystem::path& run);

inline constexpr std::int64_t kEpochs = 3;
inline constexpr std::int64_t kSteps = kEpochs * kStepsAnEpoch;

struct Outcome {
    TrainResult result;
    std::vector<NamedTensor> weights;
    std::vector<std::string> warnings = {};
};

// Trains from the newest checkpoint, if any, to the end, or until an interrupt after `stop_at` steps.
Outcome live(const Recipe& recipe, const std::filesystem::path& run, std::int64_t stop_at = 0);

// The same, but it ends after `at_step` steps as if it were killed: without a checkpoint there.
void die(const Recipe& recipe, const std::filesystem::path& run, std::int64_t at_step);

Recipe every(std::int64_t count, bool epochs, const std::string& optimizer = "adam");

}  // namespace stoker::testing
