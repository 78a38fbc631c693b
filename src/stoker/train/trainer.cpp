// The loop over epochs and steps. Every line of training-thread time falls into a phase of the
// account or is counted as unmeasured; files and state are in trainer_state.cpp.
#include "stoker/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/custom_model.h"
#include "stoker/train/run/rank_checks.h"
#include "stoker/train/run/run_metrics.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/schedule.h"

namespace stoker {
namespace {

constexpr std::uint16_t kModelDraws = 0xFFFF;  // beyond any op of the data

double peak_rss_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

std::optional<DeviceMemory> memory_of(const at::Device& device) {
    try {
        return device.is_cuda() ? std::optional(torch_cuda().memory(device)) : std::nullopt;
    } catch (const Unsupported&) {
        return std::nullopt;  // a build without the library that could tell
    }
}

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

}  // namespace

Trainer::Trainer(const Recipe& recipe, bool resumes, std::shared_ptr<Group> group)
    : Trainer(recipe, open_data(recipe.data), nullptr, OptimizerKernel::fused, resumes, std::move(group)) {}

Trainer::Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, OptimizerKernel kernel,
                 bool resumes, std::shared_ptr<Group> group) try
    : group_(group != nullptr ? std::move(group) : join_group()),
      recipe_(recipe),
      data_(std::move(data)),
      device_(prepare_device(recipe, *group_)),
      train_(make_train_loader(recipe, data_, device_, uses_channels_last(recipe, model.get()), *group_)),
      val_(data_.val == nullptr ? nullptr
                                : make_val_loader(recipe, data_, device_, uses_channels_last(recipe, model.get()),
                                                  train_->image_shape().front(), *group_)),
      model_hash_(custom_model_hash(recipe.model)),
      model_(model != nullptr
                 ? std::move(model)
                 : make_model(recipe.model, train_->image_shape(), class_count(recipe, *data_.train), recipe.seed)),
      has_weights_(recipe.model.weights.empty() || !resumes),
      fresh_(prepare_model(*model_, recipe, class_count(recipe, *data_.train), device_, resumes)),
      optimizer_(model_->trained(), recipe.optimizer, kernel),
      step_(*model_, optimizer_, account_, device_, step_options(recipe, device_),
            &require_same_recipe(*group_, recipe, *train_, val_.get())),
      copier_(device_),
      mixup_cutmix_({.mixup = recipe.train.mixup,
                     .cutmix = recipe.train.cutmix,
                     .classes = class_count(recipe, *data_.train),
                     .seed = recipe.seed}) {
    require_several_classes(recipe, *data_.train);
    require_same_classes(data_);
    const std::int64_t classes = class_count(recipe, *data_.train);
    require_fit(recipe, *model_, train_->image_shape(), classes, device_);
    require_smallest_batch(recipe, *model_, train_->batch_sampler(), train_->image_shape(), classes, device_);
    if (val_ != nullptr) {
        require_val_fit(*model_, train_->image_shape(), val_->image_shape(), device_);
    }
} catch (const std::exception& error) {
    rethrow_as_stoker(error);
}

TrainResult Trainer::fit(const FitOptions& options) {
    folder_.reset();
    if (!options.out.empty() && group_->first()) {
        folder_.emplace(options.out);
    }
    std::optional<std::int64_t> first;  // the step to begin after
    try {
        TrainResult result = with_stoker_errors([&] {
            require_same_start(*group_, options.resume, !options.out.empty());
            resume(options);
            first = steps_;
            share_state();
            return run(options);
        });
        tracker_.reset();
        folder_.reset();  // its lock is for the run, not for the trainer's life
        return result;
    } catch (const std::exception& error) {
        tell_bad_samples();
        end_failed(error.what(), first && steps_ > *first);
        throw;
    }
}

TrainResult Trainer::run(const FitOptions& options) {
    account_.restore(account_.sum());
    const auto finished = [&] { return static_cast<std::int64_t>(epochs_.size()) >= recipe_.train.epochs; };
    const bool nothing_left = finished();
    bool interrupted = false;
    while (!interrupted && !finished()) {
        interrupted = !train_epoch(options) || !finish_epoch(options);
    }
    if (interrupted && !options.out.empty()) {
        save();
    }
    account_.cut();
    TrainResult result = result_of(options, interrupted);
    if (tracker_) {
        if (!nothing_left) {
            tracker_->draw();
        }
        // A finished run tells again what it told when it ended, not what this process did.
        std::string again = nothing_left ? told_again(folder_->read_account(), result.document) : "";
        if (again.empty()) {
            folder_->write_account(result.document);
        } else {
            result.document = std::move(again);
        }
    }
    return result;
}

TrainResult Trainer::result_of(const FitOptions& options, bool interrupted) const {
    TrainResult result{.run = options.out,
                       .resumed_from_step = resumed_from_,
                       .steps = steps_,
                       .epochs = epochs_,
                       .account = account_.sum(),
                       .workers = train_->stats().workers,
                       .peak_rss_mb = peak_rss_mb(),
                       .device = device_.str(),
                       .memory = memory_of(device_),
                       .compiled = step_.compiled(),
                       .workers_used = train_->workers(),
                       .threads = at::get_num_threads(),
                       .ranks = group_->size(),
                       .interrupted = interrupted,
                       .signal = interrupted ? signal_ : 0};
    result.document = to_json(result);
    return result;
}

bool Trainer::train_epoch(const FitOptions& options) {
    // A run that stopped after an epoch's last step goes on with its steps done and its evaluation not.
    const auto current = static_cast<std::int64_t>(epochs_.size());
    if (const LoaderState at = train_->state(); at.epoch != current) {
        train_->restore(at);  // past the end-of-epoch mark, which nobody has taken if this is the same process
        return true;
    }
    const std::int64_t total = recipe_.train.epochs * train_->batches_per_epoch();
    const std::vector<double> losses = val_losses();
    account_.cut();  // what lies between epochs belongs to no step
    for (;;) {
        std::shared_ptr<Batch> batch = next_batch();
        if (batch == nullptr) {
            return true;
        }
        const StepPlace place{.step = steps_, .total = total, .steps_per_epoch = train_->batches_per_epoch()};
        const double lr = learning_rate(recipe_.schedule, recipe_.optimizer.lr, place, losses);
        DeviceBatch on_device;
        {
            const PhaseSpan span(account_, Phase::copy);
            on_device = copier_.copy(batch);
            if (mixup_cutmix_.any() && batch->size() > 0) {
                mix(on_device, mixup_cutmix_, batch->epoch(), batch->number());
            }
        }
        seed_draws();
        step_.run(on_device, lr, train_->batch_sampler().samples(batch->number()));
        after_step(*batch, lr, options);
        const PhaseSpan span(account_, group_->alone() ? Phase::unmeasured : Phase::communication);
        if (stops(options)) {
            return false;
        }
    }
}

// What a model draws (dropout) is a function of seed, step and rank, so that a resumed run draws the same.
void Trainer::seed_draws() {
    if (model_->linear_chain() != nullptr) {
        return;  // it draws nothing, and its steps are so short that this would count
    }
    Rng rng({.seed = recipe_.seed,
             .epoch = static_cast<std::uint32_t>(group_->rank()),
             .sample = static_cast<std::uint64_t>(steps_),
             .op = kModelDraws});
    const std::uint64_t seed = rng.next();
    const auto seed_on = [seed](const at::Device& device) {
        at::Generator generator = at::globalContext().defaultGenerator(device);
        const std::lock_guard lock(generator.mutex());
        generator.set_current_seed(seed);
    };
    seed_on(device_);
    if (!device_.is_cpu()) {
        seed_on(at::kCPU);  // a model may draw on the host, too
    }
}

std::shared_ptr<Batch> Trainer::next_batch() {
    const PhaseSpan span(account_, Phase::wait);
    try {
        std::shared_ptr<Batch> batch = train_->next();
        if (batch != nullptr && !batch->bad_samples().empty()) {
            note_bad_samples(batch->bad_samples(), *data_.train);
            bad_here_ += replaced_items(batch->bad_samples());
        }
        return batch;
    } catch (const TooManyBadSamples& error) {
        note_bad_samples(error.samples(), *data_.train);
        throw;
    }
}

void Trainer::after_step(const Batch& batch, double lr, const FitOptions& options) {
    ++steps_;
    const std::int64_t samples = train_->batch_sampler().samples(batch.number());
    running_.samples += samples;
    const StepRecord record = account_.cut();
    note_time(record);
    const TensorView index = batch.field(kIndexField);
    const auto* first = reinterpret_cast<const std::int64_t*>(index.data);
    pending_.push_back({.metric = {.step = steps_,
                                   .epoch = batch.epoch() + 1,
                                   .samples = samples,
                                   .lr = lr,
                                   .batch_hash = batch.hash(),
                                   .record = record},
                        .indices = {first, first + batch.size()}});
    constexpr std::size_t kSettled = 50;  // steps between two waits for the device
    if (pending_.size() >= kSettled) {
        const PhaseSpan span(account_, Phase::optimizer);  // the device's work, not time that nobody knows of
        settle();
    }
    if (options.on_step) {
        options.on_step({.epoch = batch.epoch() + 1,
                         .epochs = recipe_.train.epochs,
                         .batch = batch.number() + 1,
                         .batches = train_->batches_per_epoch(),
                         .images_per_second = static_cast<double>(running_.samples) / running_.seconds});
    }
    const Interval& every = recipe_.train.checkpoint_every;
    if (!options.out.empty() && !every.epochs && steps_ % every.count == 0) {
        save();
    }
}

void Trainer::note_time(const StepRecord& record) {
    const auto excluded = record.times[static_cast<std::size_t>(Phase::evaluate)] +
                          record.times[static_cast<std::size_t>(Phase::checkpoint)];
    running_.seconds += seconds(record.total() - excluded);
}

bool Trainer::finish_epoch(const FitOptions& options) {
    {
        const PhaseSpan span(account_, Phase::optimizer);
        settle();  // waits for what the device has still to do
    }
    note_time(account_.cut());
    EpochResult result{.epoch = static_cast<std::int64_t>(epochs_.size()) + 1,
                       .seconds = running_.seconds,
                       .images_per_second = static_cast<double>(running_.samples) / running_.seconds,
                       .train_loss = running_.loss_sum / static_cast<double>(running_.samples),
                       .bad_samples = running_.bad_samples};
    if (val_ != nullptr) {
        const PhaseSpan span(account_, Phase::evaluate);
        const auto evaluation = evaluate_with([&] { return stops(options); }, options.on_evaluation);
        if (!evaluation) {
            return false;  // the checkpoint has the epoch's steps; resuming evaluates again
        }
        result.val_loss = evaluation->loss;
        result.val_accuracy = evaluation->accuracy;
        result.val_top5_accuracy = evaluation->top5;
        result.val_bad_samples = evaluation->bad_samples;
    }
    account_.cut();  // the checkpoint's account has this epoch's evaluation
    epochs_.push_back(result);
    running_ = {};
    if (tracker_) {
        tracker_->epoch(result, steps_);
    }
    if (!options.out.empty()) {
        const Interval& every = recipe_.train.checkpoint_every;
        const bool last = result.epoch == recipe_.train.epochs;
        if (last || (every.epochs && result.epoch % every.count == 0)) {
            save();
        }
    }
    if (options.on_epoch) {
        options.on_epoch(result);
    }
    return true;
}

// What the device has done since the last time: writes the steps' lines, with their losses.
void Trainer::settle() {
    std::vector<double> losses = step_.take_losses();
    std::vector<Pending> steps = std::exchange(pending_, {});
    if (!group_->alone() && !steps.empty()) {
        join_ranks(steps, losses);
    }
    running_.bad_samples += std::exchange(bad_here_, 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        running_.loss_sum += losses[i] * static_cast<double>(steps[i].metric.samples);
        if (tracker_) {
            tracker_->step(steps[i].metric, losses[i]);
        }
        if (!std::isfinite(losses[i]) && recipe_.train.stop_at_nan) {
            fail_at(steps[i], losses[i]);
        }
    }
}

void Trainer::fail_at(const Pending& step, double loss) const {
    constexpr std::size_t kNamed = 5;
    std::string samples;
    for (std::size_t i = 0; i < std::min(step.indices.size(), kNamed); ++i) {
        samples += (i == 0 ? "" : ", ") + data_.train->key(step.indices[i]);
    }
    const std::size_t others = step.indices.size() - std::min(step.indices.size(), kNamed);
    throw InvalidArgument(
        {.where = "train",
         .expected = "a finite loss",
         .got = fmt::format("{} in step {}, of the samples {}{}", std::isnan(loss) ? "nan" : "infinity",
                            step.metric.step, samples, others > 0 ? fmt::format(" and {} more", others) : ""),
         .hint =
             "lower optimizer.lr, set train.clip_norm, or look at these samples; train.stop_at_nan = false goes on"});
}

std::vector<double> Trainer::val_losses() const {
    std::vector<double> losses;
    for (const EpochResult& epoch : epochs_) {
        losses.push_back(epoch.val_loss.value_or(epoch.train_loss));
    }
    return losses;
}

bool Trainer::stops(const FitOptions& options) {
    signal_ = group_->agree(options.interrupt == nullptr ? 0 : options.interrupt->load());
    return signal_ != 0;
}

// With the averaged weights, where there are any, and the first rank's buffers, which are those that it saves.
std::optional<Evaluation> Trainer::evaluate_with(const std::function<bool()>& stop, const OnEvaluation& on_batch) {
    const AveragedWeights averaged(step_.ema());
    std::vector<at::Tensor> buffers;
    for (const auto& [name, tensor] : model_->buffers()) {
        buffers.push_back(tensor);
    }
    group_->broadcast(buffers);
    const auto evaluation =
        stoker::evaluate(*model_, *val_, device_,
                         {.stop = stop,
                          .on_bad_samples = [&](const auto& bad) { note_bad_samples(bad, *data_.val); },
                          .on_batch = on_batch},
                         *group_);
    gather_bad_samples();
    if (evaluation) {
        require_budget(*data_.val, data_.val->size(), evaluation->bad_samples);
    }
    return evaluation;
}

Evaluation Trainer::evaluate() {
    if (val_ == nullptr) {
        throw InvalidArgument({.where = "data.val",
                               .expected = "validation data",
                               .got = "none",
                               .hint = "set data.val to a data set or to a share of train such as \"10%\""});
    }
    return with_stoker_errors([&] { return evaluate_with(nullptr, nullptr).value(); });
}

}  // namespace stoker
