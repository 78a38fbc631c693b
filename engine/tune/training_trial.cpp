// Trains as `stoker train` does. The trainer's callback after each step measures, and waits for requests: while it
// waits the ring fills up, so the first batches after it were prepared in no time and are not counted.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <csignal>

#include "engine/tune/trial_data.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

// The host queues a GPU's steps much faster than they are done. It waits for the step before the last, so that a slice
// ends in time.
class Pace {
  public:
    void step(const at::Device& device) {
        if (device.is_cpu()) {
            return;
        }
        std::optional<c10::Event>& event = events_[static_cast<std::size_t>(steps_++ % 2)];
        if (event) {
            event->synchronize();
        } else {
            event.emplace(device.type());
        }
        event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    }

  private:
    std::array<std::optional<c10::Event>, 2> events_;
    std::int64_t steps_ = 0;
};

class TrainingTrial {
  public:
    explicit TrainingTrial(const TrialOptions& options)
        : recipe_(trial_recipe(options.recipe)),
          data_(open_trial_data(options)),
          trainer_(recipe_, data_, nullptr, options.kernel, /*resumes=*/false, std::make_shared<Group>()),
          workers_(trainer_.train_loader().workers()),
          filling_(recipe_.data.cache != "none"),
          watch_(trainer_.train_loader(), trainer_.device()) {}

    void run() {
        answer(to_json(facts_of(data_, trainer_.train_loader(), trainer_.device(), trainer_.compiled())));
        skipped_ = stored_batches() + warm_up_steps(trainer_.device());
        if (filling_) {
            skipped_ = recipe_.data.prefetch + 1 + warm_up_steps(trainer_.device());
            trainer_.train_loader().set_workers(std::max(workers_, cpu_cores().usable));
        }
        if (wait()) {
            trainer_.fit({.on_step = [this](const Progress& at) { step(at); }, .interrupt = &stop_});
        }
    }

  private:
    // Batches that the loader has ready after a pause; one more is half ready.
    int stored_batches() const { return workers_ == 0 ? 0 : recipe_.data.prefetch + 1; }

    // False at the end of the requests.
    bool wait() {
        request_ = read_request();
        stop_ = request_ ? 0 : SIGTERM;
        return request_.has_value();
    }

    void step(const Progress& at) {
        pace_.step(trainer_.device());
        if (filling_ && at.epoch == 1) {
            return;
        }
        if (std::exchange(filling_, false)) {
            trainer_.train_loader().set_workers(workers_);
        }
        if (skipped_ > 0) {
            if (--skipped_ == 0) {
                begin();
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
                begin();
            }
        }
    }

    // The time before, such as that of waiting for the request, is not counted.
    void begin() {
        trainer_.account().take_record();
        watch_.begin(trainer_.account().sum());
    }

    const Recipe recipe_;
    const RecipeData data_;
    Trainer trainer_;
    const int workers_;  // of the recipe
    bool filling_;       // the first pass fills the cache, with all cores
    Pace pace_;
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
