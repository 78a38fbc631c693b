// Trains a model on data as a recipe says: epochs, evaluation, checkpoints, metrics, the step
// account. The one object that a C++ program makes, and what `stoker train` runs.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/trace/account.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/quarantine.h"
#include "stoker/train/run/run_folder.h"
#include "stoker/train/run/tracker.h"
#include "stoker/train/step/mixup_cutmix.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Where training stands, after each step.
struct Progress {
    std::int64_t epoch = 0;  // from 1
    std::int64_t epochs = 0;
    std::int64_t batch = 0;  // done in this epoch
    std::int64_t batches = 0;
    double images_per_second = 0;  // of this epoch so far
};

// What a run goes on from.
struct Resumed {
    std::string checkpoint;  // its folder
    std::int64_t step = 0;
    std::int64_t epochs = 0;                   // finished ones
    bool finished = false;                     // nothing is left to do
    std::vector<DifferingKey> differing = {};  // of an unfinished run's recipe, but for model.weights, which is not
                                               // read again: values then and now
};

struct FitOptions {
    std::filesystem::path out = {};  // the run folder; empty: nothing is written
    std::string resume = {};         // "": a fresh run; "auto": the newest checkpoint in `out`, if any; or a
                                     // checkpoint or run folder
    std::function<void(const Resumed&)> on_resume = nullptr;
    std::function<void(const Progress&)> on_step = nullptr;
    OnEvaluation on_evaluation = nullptr;  // told after each batch of an epoch's evaluation
    std::function<void(const EpochResult&)> on_epoch = nullptr;
    const std::atomic<int>* interrupt = nullptr;  // not 0: write a checkpoint and return
};

struct TrainResult {
    std::filesystem::path run;
    std::optional<std::int64_t> resumed_from_step;
    std::int64_t steps = 0;           // optimiser steps of the whole run
    std::vector<EpochResult> epochs;  // of the whole run, those before a resume included
    StepRecord account;
    StageTimes workers;  // of this process
    double peak_rss_mb = 0;
    std::string device;
    std::optional<DeviceMemory> memory = std::nullopt;  // of a GPU
    std::string compiled = {};                          // Step::compiled at the end
    int workers_used = 0;
    int threads = 0;
    int ranks = 1;
    bool interrupted = false;
    int signal = 0;             // that FitOptions::interrupt had then, on this rank or on another
    std::string document = {};  // all of this as JSON; of a run that was finished before, its document of then
};

// {"run", "resumed_from_step", "epochs", "account", "workers", "peak_rss_mb", "device", "memory", "compiled", ...}
std::string to_json(const TrainResult& result);

class Trainer {
  public:
    // Opens what the recipe names. Throws before any training for whatever cannot be. `resumes`: `fit` will go on from
    // a checkpoint, so that model.weights need not be there any more. `group`: the processes that train together, of
    // which each makes its Trainer and calls the same; null: those that the environment names.
    explicit Trainer(const Recipe& recipe, bool resumes = false, std::shared_ptr<Group> group = nullptr);
    // With data and a model of your own: a null `model` is made from the recipe.
    Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model = nullptr,
            OptimizerKernel kernel = OptimizerKernel::fused, bool resumes = false,
            std::shared_ptr<Group> group = nullptr);

    TrainResult fit(const FitOptions& options = {});

    // The model on all of the validation data. Throws InvalidArgument where there is none.
    Evaluation evaluate();

    Model& model() { return *model_; }
    // The tensors of the last layer, where model.weights had them for another number of classes.
    const std::vector<std::string>& fresh() const { return fresh_; }
    Loader& train_loader() { return *train_; }
    Account& account() { return account_; }
    const at::Device& device() const { return device_; }
    const Group& group() const { return *group_; }
    // See Step::compiled.
    std::string compiled() const { return step_.compiled(); }

  private:
    // The part of an epoch's figures that a checkpoint has to carry.
    struct Running {
        double loss_sum = 0;  // over samples
        double seconds = 0;
        std::int64_t samples = 0;
        std::int64_t bad_samples = 0;
    };

    // A step whose loss is still on the device.
    struct Pending {
        StepMetric metric;
        std::vector<std::int64_t> indices;  // of its samples
    };

    TrainResult run(const FitOptions& options);
    TrainResult result_of(const FitOptions& options, bool interrupted) const;
    bool train_epoch(const FitOptions& options);
    bool finish_epoch(const FitOptions& options);
    void seed_draws();
    void after_step(const Batch& batch, double lr, const FitOptions& options);
    void settle();
    void end_failed(const std::string& reason, bool trained);
    bool stops(const FitOptions& options);
    std::optional<Evaluation> evaluate_with(const std::function<bool()>& stop, const OnEvaluation& on_batch);
    [[noreturn]] void fail_at(const Pending& step, double loss) const;
    std::vector<double> val_losses() const;
    void save();
    void write_checkpoint();
    void resume(const FitOptions& options);
    std::filesystem::path find_start(const std::string& from);
    Resumed resumed_from(const std::filesystem::path& checkpoint, const std::string& trained_by) const;
    std::string state_json() const;
    void load_step(const Checkpoint& saved);
    struct Saved;
    static Saved parse_state(const std::string& text);
    void restore_state(Saved saved);
    std::pair<std::string, std::int64_t> load(const std::string& checkpoint);
    void note_time(const StepRecord& record);
    std::shared_ptr<Batch> next_batch();
    // Between ranks: trainer_ranks.cpp.
    void share_state();
    void join_ranks(std::vector<Pending>& steps, std::vector<double>& losses);
    void note_bad_samples(std::span<const BadSample> samples, const Dataset& dataset);
    void gather_bad_samples();
    void tell_bad_samples();
    void require_budget(const Dataset& dataset, std::int64_t places, std::int64_t bad) const;

    std::shared_ptr<Group> group_;
    Recipe recipe_;
    RecipeData data_;
    at::Device device_;
    std::unique_ptr<Loader> train_;
    std::unique_ptr<Loader> val_;
    std::string model_hash_;  // of its file, where that is one's own
    std::unique_ptr<Model> model_;
    bool has_weights_;  // those that training begins with; else `fit` has to resume
    std::vector<std::string> fresh_;
    Optimizer optimizer_;
    Account account_;
    Step step_;
    DeviceCopier copier_;
    MixupCutmixOptions mixup_cutmix_;
    std::optional<RunFolder> folder_;  // of the first rank alone, as all that is written
    std::optional<Tracker> tracker_;   // where there is a folder, once the run has begun
    Quarantine quarantine_;
    std::int64_t steps_ = 0;
    Running running_;
    std::vector<Pending> pending_;
    std::int64_t bad_here_ = 0;   // this rank's bad samples since the last `settle`
    std::string bad_lines_ = {};  // for quarantine.jsonl, of ranks that do not write it
    int signal_ = 0;
    std::vector<EpochResult> epochs_;
    std::optional<std::int64_t> resumed_from_;
};

}  // namespace stoker
