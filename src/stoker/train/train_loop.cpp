#include "stoker/train/train_loop.h"

#include <algorithm>
#include <utility>

#include "stoker/bridge/torch_error.h"
#include "stoker/records/records_json.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/schedule.h"
#include "stoker/train/step/seed_step.h"
#include "stoker/train/task/target_check.h"

namespace stoker {
namespace {

constexpr std::size_t kStepsBetweenReads = 50;  // of the losses; each read waits for the device

// The ranks' vote after a step: the number of a request for a checkpoint, or kStopVote plus the signal. The largest
// vote counts, so stopping comes before saving.
constexpr int kStopVote = 1 << 24;
// A signal to all ranks reaches each of them within this time.
constexpr std::chrono::seconds kSignalSpread{10};

}  // namespace

TrainLoop::TrainLoop(TrainPlan& plan, RunRecorder& recorder, RankSync& ranks, OptimizerKernel kernel)
    : plan_(plan),
      recorder_(recorder),
      ranks_(ranks),
      optimizer_(
          plan.model->trainable_parameters(),
          plan.stage ? stage_recipe(plan.recipe.optimizer, plan.model->trainable_parameters()) : plan.recipe.optimizer,
          kernel, plan.recipe.train.shard == "optimizer" ? plan.mesh.data.get() : nullptr, plan.full.get()),
      step_(make_step({*plan.model, optimizer_, account_, plan.device,
                       step_options(plan.recipe, plan.task, plan.device), plan.step_ranks(), plan.replicas})),
      checkpoints_(plan, optimizer_, *step_, recorder),
      copier_(plan.device, plan.task.fields),
      device_reader_(plan.device),
      intervals_(*plan.train_loader, [this] { return device_reader_.read(); }),
      mixup_cutmix_({.mixup = plan.recipe.train.mixup,
                     .cutmix = plan.recipe.train.cutmix,
                     .classes = plan.task.outputs,
                     .seed = plan.recipe.seed}),
      best_by_(best_by(plan.task, plan.recipe.train.keep_best).value()) {}

bool TrainLoop::run(const FitOptions& options) {
    account_.restore(account_.sum());
    requests_ = {};
    if (steps_ == 0) {  // a new run, perhaps in another folder
        saved_steps_ = -1;
        saved_epochs_ = -1;
    }
    bool stopped = false;
    while (!stopped && !finished()) {
        stopped = !train_epoch(options) || !finish_epoch(options);
    }
    if (stopped && !options.out.empty()) {
        save(/*last=*/true);
    } else if (stopped && options.on_record) {
        record_losses(/*last=*/true);
    }
    account_.take_record();
    return !stopped;
}

bool TrainLoop::train_epoch(const FitOptions& options) {
    Loader& loader = *plan_.train_loader;
    // A run that was stopped during an epoch's evaluation has done the epoch's steps.
    if (const LoaderState at = loader.state(); at.epoch != std::ssize(epochs_)) {
        loader.restore(at);  // skips the end-of-epoch mark, which this process may not have taken
        return true;
    }
    const Recipe& recipe = plan_.recipe;
    const std::int64_t per_epoch = loader.batches_per_epoch();
    const std::vector<double> losses = recipe.schedule.name == "plateau" ? val_losses() : std::vector<double>();
    account_.take_record();  // the time between epochs belongs to no step
    intervals_.begin();
    while (const std::shared_ptr<Batch> batch = next_batch()) {
        const StepPosition position{
            .step = steps_, .total = recipe.train.epochs * per_epoch, .steps_per_epoch = per_epoch};
        const double lr = learning_rate(recipe.schedule, recipe.optimizer.lr, position, losses);
        const DeviceBatch on_device = copy(batch);
        seed_generators();
        run_step(*batch, on_device, lr);
        after_step(*batch, on_device, lr, options);
        const PhaseSpan span(account_, plan_.group->alone() ? Phase::unmeasured : Phase::communication);
        if (interrupted(options)) {
            return false;
        }
        save_on_request(options);
    }
    return true;
}

void TrainLoop::run_step(const Batch& batch, const DeviceBatch& on_device, double lr) {
    const char* const kHalfDone = plan_.group->alone() ? "the last step failed in the middle of its update"
                                                       : "a step that several processes share failed halfway";
    unsavable_ = kHalfDone;
    try {
        step_->run(on_device, lr, plan_.train_loader->batch_sampler().samples(batch.number()));
    } catch (...) {
        unsavable_ = step_->intact() ? nullptr : kHalfDone;
        throw;
    }
}

std::shared_ptr<Batch> TrainLoop::next_batch() {
    const PhaseSpan span(account_, Phase::wait);
    return plan_.train_loader->next(
        [this](std::span<const BadSample> bad) { add_bad_samples(bad, *plan_.data.train); });
}

DeviceBatch TrainLoop::copy(const std::shared_ptr<Batch>& batch) {
    if (!plan_.device.is_cpu()) {
        const PhaseSpan span(account_, Phase::sync);
        copier_.make_room();
    }
    const PhaseSpan span(account_, Phase::copy);
    require_targets(plan_.task, *batch, *plan_.data.train);
    return step_->beside_graph([&] {
        DeviceBatch on_device = copier_.copy(batch);
        prepare(plan_.task, on_device);
        if (mixup_cutmix_.any() && batch->size() > 0) {
            const auto roll = [&](const at::Tensor& slice) {
                return ranks_.roll(slice, plan_.train_loader->batch_sampler(), batch->number());
            };
            mix(on_device, mixup_cutmix_, batch->epoch(), batch->number(), roll);
        }
        return on_device;
    });
}

// Seeds depend on (seed, step, data rank), so a resumed run, and ranks that share a model, draw the same numbers.
void TrainLoop::seed_generators() {
    if (plan_.model->linear_chain() != nullptr) {
        return;  // it draws nothing, and its steps are so short that seeding would take a visible share
    }
    seed_step(plan_.recipe.seed, steps_, plan_.device, plan_.mesh.data->rank());
}

void TrainLoop::after_step(const Batch& batch, const DeviceBatch& on_device, double lr, const FitOptions& options) {
    ++steps_;
    const std::int64_t samples = plan_.train_loader->batch_sampler().samples(batch.number());
    sums_.samples += samples;
    bad_samples_ += replaced_items(batch.bad_samples());
    const StepRecord record = account_.take_record();
    add_seconds(record);
    const TensorView index = batch.field(kIndexField);
    const auto* first = reinterpret_cast<const std::int64_t*>(index.data);
    pending_.push_back(
        {.step = steps_,
         .epoch = batch.epoch() + 1,
         .samples = samples,
         .lr = lr,
         .batch_hash = batch.hash(),
         .record = record,
         .ready = plan_.train_loader->ready_batches(),
         .copy_bytes = plan_.device.is_cpu() ? std::nullopt : std::optional(bytes_of(batch, plan_.task.fields)),
         .indices = {first, first + batch.size()}});
    unsavable_ = nullptr;  // the step is done, with all its records
    if (pending_.size() >= kStepsBetweenReads) {
        record_losses(/*last=*/false);
    }
    const TrainRecipe& train = plan_.recipe.train;
    if (options.on_step) {
        options.on_step({.epoch = batch.epoch() + 1,
                         .epochs = train.epochs,
                         .batch = batch.number() + 1,
                         .batches = plan_.train_loader->batches_per_epoch(),
                         .images_per_second = static_cast<double>(sums_.samples) / sums_.seconds,
                         .loss = known_loss(),
                         .samples = &batch,
                         .on_device = &on_device,
                         .step_loss = step_->last_loss()});
    }
    if (!options.out.empty() && !train.checkpoint_every.epochs && steps_ % train.checkpoint_every.count == 0) {
        save(/*last=*/false);
    }
}

void TrainLoop::add_seconds(const StepRecord& record) {
    const auto excluded = record.times[static_cast<std::size_t>(Phase::evaluate)] +
                          record.times[static_cast<std::size_t>(Phase::checkpoint)];
    sums_.seconds += std::chrono::duration<double>(record.total() - excluded).count();
}

bool TrainLoop::finish_epoch(const FitOptions& options) {
    const std::int64_t epoch = std::ssize(epochs_) + 1;
    const bool last = epoch >= plan_.recipe.train.epochs;
    const bool evaluates = plan_.val_loader != nullptr && (last || epoch % plan_.recipe.train.evaluate_every == 0);
    record_losses(/*last=*/last || evaluates);
    add_seconds(account_.take_record());
    EpochResult result{.epoch = epoch,
                       .step = steps_,
                       .seconds = sums_.seconds,
                       .images_per_second = static_cast<double>(sums_.samples) / sums_.seconds,
                       .train_loss = sums_.loss / static_cast<double>(sums_.samples),
                       .bad_samples = sums_.bad_samples,
                       .bubble = bubble()};
    if (evaluates) {
        const auto evaluation = evaluate_epoch(options);
        if (!evaluation) {
            return false;  // the checkpoint has the epoch's steps; a resumed run evaluates again
        }
        plan_.group->check();  // ranks that share a model have used collectives
        result.val_loss = evaluation->loss;
        result.val_accuracy = evaluation->accuracy;
        result.val_top5_accuracy = evaluation->top5;
        result.val_metrics = evaluation->metrics;
        result.val_bad_samples = evaluation->bad_samples;
    }
    account_.take_record();  // so that the checkpoint's account includes this evaluation
    epochs_.push_back(result);
    sums_ = {};
    recorder_.epoch(result);
    save_best(options);
    const Interval& every = plan_.recipe.train.checkpoint_every;
    if (!options.out.empty() && (finished() || (every.epochs && result.epoch % every.count == 0))) {
        save(/*last=*/false);
    }
    if (options.on_epoch) {
        options.on_epoch(result);
    }
    return true;
}

bool TrainLoop::finished() const {
    return std::ssize(epochs_) >= plan_.recipe.train.epochs || stopped_early();
}

bool TrainLoop::stopped_early() const {
    return stops_early(epochs_, best_by_, plan_.recipe.train.early_stop);
}

const EpochResult* TrainLoop::best() const {
    return plan_.recipe.train.keep_best.empty() ? nullptr : best_epoch(epochs_, best_by_);
}

// If the last epoch is the best one so far. Before the epoch's checkpoint, so that a run that is killed in between
// trains the epoch again and writes it again, or continues from this one if it is the only one.
void TrainLoop::save_best(const FitOptions& options) {
    const EpochResult* const found = best();
    if (options.out.empty() || found != &epochs_.back()) {
        return;
    }
    const PhaseSpan span(account_, Phase::checkpoint);
    checkpoints_.save(state(), /*as_best=*/true);
    plan_.group->barrier();  // as in `save`
}

// Empty where a signal stopped the run. A checkpoint that is asked for meanwhile is written at once, since the job may
// end soon; the evaluation then begins again.
std::optional<Evaluation> TrainLoop::evaluate_epoch(const FitOptions& options) {
    for (;;) {
        {
            const PhaseSpan span(account_, Phase::evaluate);
            const auto stop = [&] {
                if (interrupted(options) || (save_wanted() && !saved())) {
                    return true;
                }
                save_on_request(options);  // of a state that is saved already
                return false;
            };
            if (auto evaluation = evaluate(stop, options.on_evaluation)) {
                return evaluation;
            }
        }
        if (signal_ != 0) {
            return std::nullopt;
        }
        save_on_request(options);
    }
}

std::vector<double> TrainLoop::val_losses() const {
    std::vector<double> losses;
    for (const EpochResult& epoch : epochs_) {
        if (plan_.val_loader == nullptr) {
            losses.push_back(epoch.train_loss);
        } else if (epoch.val_loss) {  // the two losses cannot be compared
            losses.push_back(*epoch.val_loss);
        }
    }
    return losses;
}

bool TrainLoop::interrupted(const FitOptions& options) {
    const int stop = options.interrupt == nullptr ? 0 : options.interrupt->load();
    const int vote = ranks_.vote(stop != 0 ? kStopVote + stop : own_request(options));
    signal_ = std::max(vote - kStopVote, 0);
    requests_.newest = signal_ == 0 ? std::max(requests_.newest, vote) : requests_.newest;
    return signal_ != 0;
}

// The number of this rank's newest request for a checkpoint. All ranks count, because srun sends a signal to each of
// them: the n-th signal of any rank asks for the n-th checkpoint, whenever it reaches the others. A rank that was not
// sent the signal catches up later.
int TrainLoop::own_request(const FitOptions& options) {
    if (options.save == nullptr || options.out.empty()) {
        return 0;
    }
    if (std::chrono::steady_clock::now() - requests_.answered_at > kSignalSpread) {
        requests_.not_sent = std::max(requests_.not_sent, requests_.answered - requests_.seen);
    }
    requests_.seen = options.save->load();
    return requests_.seen + requests_.not_sent;
}

void TrainLoop::save_on_request(const FitOptions& options) {
    if (!save_wanted()) {
        return;
    }
    if (!saved()) {
        save(/*last=*/false);
    }
    requests_.answered = requests_.newest;
    requests_.answered_at = std::chrono::steady_clock::now();
    if (options.on_save) {
        options.on_save(steps_);
    }
}

void TrainLoop::add_bad_samples(std::span<const BadSample> samples, const Dataset& dataset) {
    recorder_.bad_samples(ranks_.add_bad_samples(Quarantine::lines(samples, dataset, plan_.group->rank())));
}

std::optional<Evaluation> TrainLoop::evaluate(const std::function<bool()>& stop, const OnEvaluation& on_batch) {
    const AveragedWeights averaged(step_->ema());
    std::optional<StageLinks> links;
    if (plan_.stage) {
        links.emplace(*plan_.mesh.pipeline, plan_.stage->val);
    }
    const Dataset& dataset = *plan_.data.val;
    const bool alone = !links && plan_.full == nullptr;  // else other ranks are in the middle of the batch
    const std::function<bool()> free_graph = [&] { return step_->free_graph(); };
    auto evaluation = stoker::evaluate(*plan_.model, *plan_.val_loader, plan_.task, plan_.device,
                                       {.stop = stop,
                                        .on_bad_samples = [&](const auto& bad) { add_bad_samples(bad, dataset); },
                                        .on_batch = on_batch,
                                        .precision = run_precision(plan_.recipe, plan_.device),
                                        .stage = links ? &*links : nullptr,
                                        .full = plan_.full.get(),
                                        .free_memory = alone ? free_graph : nullptr},
                                       *plan_.mesh.figures);
    recorder_.bad_samples(ranks_.gather_bad_samples());
    if (evaluation) {
        const EvaluationEntry entry{.step = steps_,
                                    .samples = evaluation->samples,
                                    .host = evaluation->account,
                                    .workers = evaluation->workers};
        recorder_.records(ranks_.gather_lines(to_json_line(entry, plan_.group->rank()) + "\n"));
        ranks_.require_budget(dataset, dataset.size(), evaluation->bad_samples);
    }
    return evaluation;
}

void TrainLoop::save(bool last) {
    const PhaseSpan span(account_, Phase::checkpoint);
    record_losses(last);
    save_state();
    plan_.group->barrier();  // writing may take rank 0 longer than the timeout of a step's communication
}

void TrainLoop::save_state() {
    checkpoints_.save(state(), /*as_best=*/false);
    saved_steps_ = steps_;
    saved_epochs_ = std::ssize(epochs_);
}

std::string TrainLoop::save_after_failure() {
    try {
        if (plan_.group->alone()) {  // several ranks would have to merge their losses
            record_losses(/*last=*/true);
        }
        if (!recorder_.recording()) {
            return "";
        }
        if (unsavable_ == nullptr && !pending_.empty()) {
            unsavable_ = "the losses of its last steps are not summed over the processes";
        }
        if (unsavable_ == nullptr && !saved()) {
            unsavable_ = checkpoints_.why_not_alone();
            if (unsavable_ == nullptr) {
                save_state();
            }
        }
        return unsavable_ == nullptr ? "" : unsavable_;
    } catch (const std::exception& error) {
        if (is_device_lost(error)) {
            rethrow_as_stoker(error);
        }
        return error.what();
    }
}

RunState TrainLoop::state() const {
    LoaderState loader = plan_.train_loader->state();
    // The position after the last step: the loader may have given a later batch, which failed.
    const std::int64_t per_epoch = plan_.train_loader->batches_per_epoch();
    loader.epoch = steps_ / per_epoch;
    loader.batch = steps_ % per_epoch;
    loader.bad_samples = loader.batch == 0 ? 0 : sums_.bad_samples;  // of all ranks
    return {.loader = loader,
            .classes = plan_.task.classes,
            .step = steps_,
            .epochs = epochs_,
            .sums = sums_,
            .account = account_.sum(),
            .accumulate = step_->accumulate() > plan_.recipe.train.accumulate ? step_->accumulate() : 1,
            .recipe = recipe_to_toml(plan_.recipe),
            .model_hash = plan_.model_hash,
            .data = summary_of(*plan_.data.train)};
}

RunState TrainLoop::load(const std::filesystem::path& checkpoint) {
    RunState state = checkpoints_.load(checkpoint);
    require_consistent(state, plan_.train_loader->batches_per_epoch());
    plan_.train_loader->restore(state.loader);
    step_->accumulate_at_least(state.accumulate, plan_.train_loader->batch_sampler().max_slice());
    account_.restore(state.account);
    steps_ = state.step;
    epochs_ = state.epochs;
    for (EpochResult& epoch : epochs_) {
        set_directions(plan_.task, epoch.val_metrics);
    }
    sums_ = state.sums;
    saved_steps_ = steps_;
    saved_epochs_ = std::ssize(epochs_);
    unsavable_ = nullptr;
    return state;
}

}  // namespace stoker
