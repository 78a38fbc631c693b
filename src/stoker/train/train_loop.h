// The loop over epochs and steps of a planned run: learning rate, evaluation, checkpoints and the reaction to
// interrupts. Every moment of the training thread belongs to a phase of the account or counts as unmeasured.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/device_copier.h"
#include "stoker/records/account.h"
#include "stoker/train/fit_options.h"
#include "stoker/train/run/best_epoch.h"
#include "stoker/train/run/checkpointer.h"
#include "stoker/train/run/device_reader.h"
#include "stoker/train/run/interval_recorder.h"
#include "stoker/train/run/run_recorder.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/mixup_cutmix.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/step.h"

namespace stoker {

class TrainLoop {
  public:
    // All three must outlive the loop.
    TrainLoop(TrainPlan& plan, RunRecorder& recorder, RankSync& ranks, OptimizerKernel kernel);

    // Trains until all epochs are done. False: it was interrupted; then a checkpoint is written where `options.out` is
    // set.
    bool run(const FitOptions& options);
    // The model, or its averaged weights, on the validation data, which must be there. Empty where `stop` returned
    // true.
    std::optional<Evaluation> evaluate(const std::function<bool()>& stop, const OnEvaluation& on_batch);

    // Continues after a checkpoint, and returns what it has besides tensors. Throws InvalidArgument for one of another
    // model, optimiser or data.
    RunState load(const std::filesystem::path& checkpoint);
    const Checkpointer& checkpoints() const { return checkpoints_; }
    // Reads the losses that are still on the device and records their steps. Throws InvalidArgument for a loss that is
    // not finite, if train.stop_at_nan says so, and DataError if the ranks together exceed the bad-sample budget.
    // `last`: also ends the interval that is open.
    void record_losses(bool last);
    // For a run that fails: records the losses, and in a run folder saves the state after the last whole step if it is
    // not saved yet. Returns why it could not, or an empty text. Throws DeviceLost alone, and does not wait for other
    // ranks.
    std::string save_after_failure();
    // Records what the host, device, data and settings of every rank are. All ranks must call it.
    void record_facts();
    // Drops the steps that `record_losses` would record.
    void discard_losses();

    std::int64_t steps() const { return steps_; }
    const std::vector<EpochResult>& epochs() const { return epochs_; }
    bool finished() const;       // all epochs are done, or it stopped early
    bool stopped_early() const;  // train.early_stop has ended the run
    // The epoch of the checkpoint RUN/best; null where there is none.
    const EpochResult* best() const;
    const Step& step() const { return *step_; }
    Account& account() { return account_; }
    int signal() const { return signal_; }  // that interrupted the last run, on this rank or another

  private:
    bool train_epoch(const FitOptions& options);
    bool finish_epoch(const FitOptions& options);
    std::optional<Bubble> bubble();
    std::optional<Evaluation> evaluate_epoch(const FitOptions& options);
    void run_step(const Batch& batch, const DeviceBatch& on_device, double lr);
    std::shared_ptr<Batch> next_batch();
    DeviceBatch copy(const std::shared_ptr<Batch>& batch);
    void after_step(const Batch& batch, const DeviceBatch& on_device, double lr, const FitOptions& options);
    void seed_generators();
    void add_seconds(const StepRecord& record);
    void add_bad_samples(std::span<const BadSample> samples, const Dataset& dataset);
    std::optional<double> known_loss() const;
    void record_interval(std::span<const StepResult> steps, std::chrono::nanoseconds sync, bool last);
    std::string changed_facts();
    bool interrupted(const FitOptions& options);
    int own_request(const FitOptions& options);
    std::vector<double> val_losses() const;
    [[noreturn]] void refuse_loss(const StepResult& step, double loss) const;
    void save(bool last);
    void save_on_request(const FitOptions& options);
    void save_best(const FitOptions& options);
    bool save_wanted() const { return requests_.newest > requests_.answered; }
    void save_state();
    bool saved() const { return saved_steps_ == steps_ && saved_epochs_ == std::ssize(epochs_); }
    RunState state() const;

    // Requests for a checkpoint (FitOptions::save), by number.
    struct SaveRequests {
        int seen = 0;      // by this rank
        int not_sent = 0;  // to this rank, but to others
        int newest = 0;    // of all ranks
        int answered = 0;
        std::chrono::steady_clock::time_point answered_at = {};
    };

    TrainPlan& plan_;
    RunRecorder& recorder_;
    RankSync& ranks_;
    Optimizer optimizer_;
    Account account_;
    std::unique_ptr<Step> step_;
    Checkpointer checkpoints_;
    DeviceCopier copier_;
    DeviceReader device_reader_;
    IntervalRecorder intervals_;
    RunFacts facts_;  // as they were last recorded
    const MixupCutmixOptions mixup_cutmix_;
    const BestBy best_by_;  // of train.keep_best and train.early_stop
    std::int64_t steps_ = 0;
    std::vector<EpochResult> epochs_;  // finished ones
    EpochSums sums_;                   // of the epoch in progress
    std::vector<StepResult> pending_;  // steps since the last record_losses
    std::int64_t bad_samples_ = 0;     // bad samples of this rank since then
    std::optional<double> loss_;       // of the last step of the last record_losses
    int signal_ = 0;
    SaveRequests requests_;
    std::int64_t saved_steps_ = -1;  // steps and finished epochs in the newest checkpoint
    std::int64_t saved_epochs_ = -1;
    const char* unsavable_ = nullptr;  // why the state belongs to no step; null: it belongs to the last one
};

}  // namespace stoker
