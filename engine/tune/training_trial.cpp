// Trains as `stoker train` does. The trainer's callback after each step measures, and waits for requests: while it
// waits the ring fills up, so the first batches after it were prepared in no time and are not counted.
#include <ATen/Parallel.h>

#include <atomic>
#include <csignal>

#include "engine/tune/trial_data.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

constexpr int kWarmUpSteps = 2;
constexpr int kWarmUpStepsOnDevice = 5;  // a graph is captured in the fourth step

class TrainingTrial {
  public:
    explicit TrainingTrial(const TrialOptions& options)
        : recipe_(endless(options.recipe)),
          data_(open_trial_data(options)),
          trainer_(recipe_, data_, nullptr, options.kernel),
          watch_(trainer_.train_loader(), trainer_.device()) {}

    void run() {
        answer(to_json(facts_of(data_, trainer_.train_loader(), trainer_.device(), trainer_.compiled())));
        skipped_ = stored_batches() + (trainer_.device().is_cpu() ? kWarmUpSteps : kWarmUpStepsOnDevice);
        if (wait()) {
            trainer_.fit({.on_step = [this](const Progress& at) { step(at); }, .interrupt = &stop_});
        }
    }

  private:
    // Batches that the loader has ready after a pause; one more is half ready.
    int stored_batches() const { return trainer_.train_loader().workers() == 0 ? 0 : recipe_.data.prefetch + 1; }

    // False at the end of the requests.
    bool wait() {
        request_ = read_request();
        stop_ = request_ ? 0 : SIGTERM;
        return request_.has_value();
    }

    void step(const Progress& at) {
        const bool cold = recipe_.data.cache != "none" && at.epoch == 1;  // the first pass fills the cache
        if (cold || skipped_ > 0) {
            skipped_ -= cold ? 0 : 1;
            if (skipped_ == 0) {
                watch_.begin(trainer_.account().sum());
            }
            return;
        }
        watch_.add(trainer_.train_loader().batch_sampler().samples(at.batch - 1));
        if (watch_.seconds() >= request_->seconds) {
            const Measurement done = watch_.end(trainer_.account().sum());
            watch_.wait_for_rest();  // the ring fills up before another trial is measured
            answer(to_json(done));
            skipped_ = stored_batches();
            if (wait() && skipped_ == 0) {
                watch_.begin(trainer_.account().sum());
            }
        }
    }

    const Recipe recipe_;
    const RecipeData data_;
    Trainer trainer_;
    Stopwatch watch_;
    std::optional<TrialRequest> request_;
    int skipped_ = 0;  // steps until the measurement begins
    std::atomic<int> stop_ = 0;
};

}  // namespace

int serve_training(const TrialOptions& options) {
    TrainingTrial(options).run();
    return 0;
}

}  // namespace stoker::cli
