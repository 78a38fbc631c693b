// What a checkpoint holds of a run, and how a run begins: afresh, or from a checkpoint.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/train/run/resume_checks.h"
#include "stoker/train/run/run_metrics.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/trainer.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kStateVersion = 2;

Json to_json_value(const EpochResult& epoch) {
    Json json = Json::parse(epoch_metric(epoch, 0));
    json.erase("type");
    json.erase("schema");
    json.erase("step");
    return json;
}

// JSON has no NaN: a diverged loss is written as null.
double number(const Json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

EpochResult epoch_from(const Json& json) {
    const auto optional = [&](const char* key) {
        return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<double>());
    };
    return {.epoch = json.at("epoch").get<std::int64_t>(),
            .seconds = json.at("seconds").get<double>(),
            .images_per_second = json.at("images_per_second").get<double>(),
            .train_loss = number(json.at("train_loss")),
            .val_loss = optional("val_loss"),
            .val_accuracy = optional("val_accuracy"),
            .val_top5_accuracy = optional("val_top5_accuracy"),
            .bad_samples = json.value("bad_samples", std::int64_t{0}),
            .val_bad_samples = json.value("val_bad_samples", std::int64_t{0})};
}

}  // namespace

void Trainer::save() {
    const PhaseSpan span(account_, Phase::checkpoint);
    settle();
    if (folder_) {
        write_checkpoint();
    }
    group_->barrier();  // the others wait here while the first writes, which may take longer than a step may
}

void Trainer::write_checkpoint() {
    tracker_->flush();
    std::vector<NamedTensor> optimizer = optimizer_.state();
    if (const Scaler* scaler = step_.scaler()) {
        std::ranges::move(scaler->state(), std::back_inserter(optimizer));
    }
    folder_->save(steps_, {.model = model_->state(),
                           .optimizer = std::move(optimizer),
                           .ema = step_.ema() != nullptr ? step_.ema()->state() : std::vector<NamedTensor>(),
                           .state = state_json(),
                           .about = model_metadata(recipe_, (val_ != nullptr ? val_ : train_)->image_shape(),
                                                   data_.train->classes())});
}

std::string Trainer::state_json() const {
    Json epochs = Json::array();
    for (const auto& epoch : epochs_) {
        epochs.push_back(to_json_value(epoch));
    }
    Json account = Json::object();
    for (std::size_t i = 0; i < kPhases; ++i) {
        account[std::string(phase_name(static_cast<Phase>(i)))] = account_.sum().times[i].count();
    }
    const std::int64_t found = step_.accumulate();  // by a memory that was too small for the recipe's
    LoaderState loader = train_->state();
    loader.bad_samples = loader.batch == 0 ? 0 : running_.bad_samples;  // of all ranks
    Json json = {{"version", kStateVersion},
                 {"step", steps_},
                 {"loader", Json::parse(to_json(loader))},
                 {"classes", data_.train->classes()},
                 {"epochs", epochs},
                 {"epoch_so_far",
                  {{"loss_sum", running_.loss_sum},
                   {"samples", running_.samples},
                   {"seconds", running_.seconds},
                   {"bad_samples", running_.bad_samples}}},
                 {"account_ns", account},
                 {"recipe", recipe_to_toml(recipe_)},
                 {"accumulate", found > recipe_.train.accumulate ? found : 1},
                 {"metrics_bytes", folder_->metrics_bytes()}};
    if (!model_hash_.empty()) {
        json["model_file"] = {{"hash", model_hash_}};
    }
    return json.dump(2) + "\n";
}

// What a state.json says.
struct Trainer::Saved {
    LoaderState loader;
    std::vector<std::string> classes;
    std::int64_t step;
    std::vector<EpochResult> epochs;
    Running running;
    StepRecord account;
    std::int64_t accumulate;
    std::int64_t metrics_bytes;
};

Trainer::Saved Trainer::parse_state(const std::string& text) {
    try {
        const Json json = Json::parse(text);
        if (json.at("version").get<int>() != kStateVersion) {
            throw InvalidArgument({.where = "checkpoint",
                                   .expected = "version " + std::to_string(kStateVersion),
                                   .got = json.at("version").dump(),
                                   .hint = "another version of Stoker wrote it: begin anew with --out DIR, and "
                                           "model.weights for its weights"});
        }
        const Json& so_far = json.at("epoch_so_far");
        Saved saved{.loader = loader_state_from_json(json.at("loader").dump()),
                    .classes = json.at("classes").get<std::vector<std::string>>(),
                    .step = json.at("step").get<std::int64_t>(),
                    .epochs = {},
                    .running = {.loss_sum = number(so_far.at("loss_sum")),
                                .seconds = so_far.at("seconds").get<double>(),
                                .samples = so_far.at("samples").get<std::int64_t>(),
                                .bad_samples = so_far.value("bad_samples", std::int64_t{0})},
                    .account = {},
                    .accumulate = json.at("accumulate").get<std::int64_t>(),
                    .metrics_bytes = json.at("metrics_bytes").get<std::int64_t>()};
        std::ranges::transform(json.at("epochs"), std::back_inserter(saved.epochs), epoch_from);
        for (std::size_t i = 0; i < kPhases; ++i) {
            saved.account.times[i] = std::chrono::nanoseconds(
                json.at("account_ns").value(phase_name(static_cast<Phase>(i)), std::int64_t{0}));
        }
        return saved;
    } catch (const nlohmann::json::exception& error) {
        throw InvalidArgument(
            {.where = "checkpoint", .expected = "a state.json that Stoker wrote", .got = json_reason(error)});
    }
}

void Trainer::restore_state(Saved saved) {
    require_same_sampler(train_->state(), saved.loader);
    require_classes(saved.classes, "the checkpoint", *data_.train);
    const auto finished = static_cast<std::int64_t>(saved.epochs.size());
    // At an epoch's end its evaluation may still be missing.
    const LoaderState& loader = saved.loader;
    const bool epochs_fit = finished == loader.epoch || (finished == loader.epoch - 1 && loader.batch == 0);
    const std::int64_t batches = train_->batches_per_epoch();
    const bool step_fits =
        saved.step >= 0 && saved.step / batches == loader.epoch && saved.step % batches == loader.batch;
    if (!step_fits || !epochs_fit || saved.running.samples < 0) {
        throw InvalidArgument({.where = "checkpoint",
                               .expected = "a state.json whose step, epochs and loader agree",
                               .got = fmt::format("step {} and {} whole epochs, but a loader in epoch {} at batch {}",
                                                  saved.step, finished, loader.epoch, loader.batch),
                               .hint = "resume from another checkpoint"});
    }
    train_->restore(loader);
    step_.accumulate_at_least(saved.accumulate);
    steps_ = saved.step;
    epochs_ = std::move(saved.epochs);
    running_ = saved.running;
    account_.restore(saved.account);
    resumed_from_ = steps_;
}

// The scaler's state lies beside the optimiser's.
void Trainer::load_step(const Checkpoint& saved) {
    std::vector<NamedTensor> optimizer = saved.optimizer;
    const auto others = std::ranges::stable_partition(
        optimizer, [](const NamedTensor& entry) { return !entry.name.starts_with("scaler."); });
    const std::vector<NamedTensor> scaler(others.begin(), others.end());
    optimizer.erase(others.begin(), others.end());
    optimizer_.load(optimizer);
    step_.load(scaler, saved.ema);
}

// Of the recipe's keys, those that may differ: what must not was refused.
Resumed Trainer::resumed_from(const std::filesystem::path& checkpoint, const std::string& trained_by) const {
    Resumed resumed{.checkpoint = checkpoint.string(),
                    .step = steps_,
                    .epochs = static_cast<std::int64_t>(epochs_.size()),
                    .finished = static_cast<std::int64_t>(epochs_.size()) >= recipe_.train.epochs};
    if (!trained_by.empty() && !resumed.finished) {
        resumed.differing = differing_keys(
            {recipe_keys(trained_by, "the checkpoint's recipe"), recipe_keys(recipe_to_toml(recipe_), "the recipe")});
        std::erase_if(resumed.differing, [](const DifferingKey& key) { return key.key == "model.weights"; });
    }
    return resumed;
}

// The first rank's folder, where there is one, and the checkpoint to go on from; empty: none.
std::filesystem::path Trainer::find_start(const std::string& from) {
    folder_->lock();
    if (folder_->exists() && !folder_->is_run()) {
        throw InvalidArgument({.where = folder_->path().string(),
                               .expected = "a run folder, or a new one",
                               .got = "one with files of the same names and no recipe.toml",
                               .hint = "add --out DIR for another folder"});
    }
    if (from.empty() && folder_->exists() && !folder_->failed_early()) {
        throw InvalidArgument({.where = folder_->path().string(),
                               .expected = "a folder for a new run",
                               .got = "one that holds a run already",
                               .hint = "add --resume auto to go on with it, or --out DIR for another folder"});
    }
    if (from.empty()) {
        return {};
    }
    const auto checkpoint = find_checkpoint(from == "auto" ? folder_->path() : std::filesystem::path(from));
    if (!checkpoint && from != "auto") {
        throw IoError({.where = from, .expected = "a checkpoint or a run folder with one", .got = "none"});
    }
    if (checkpoint && folder_->exists() && !folder_->holds(*checkpoint)) {
        throw InvalidArgument({.where = folder_->path().string(),
                               .expected = "a new folder, or the one that the checkpoint lies in",
                               .got = "one that holds another run",
                               .hint = "add --out DIR for a new folder"});
    }
    return checkpoint.value_or("");
}

// Reads it into all that training goes on with, and gives the recipe (TOML) that it was trained by and the length that
// metrics.jsonl had.
std::pair<std::string, std::int64_t> Trainer::load(const std::string& checkpoint) {
    const Checkpoint saved = read_checkpoint(checkpoint);
    std::string trained_by = read_trained_recipe(checkpoint);
    require_same_model(trained_by, recipe_);
    require_same_file(read_model_hash(checkpoint), model_hash_, recipe_.model);
    require_same_optimizer(trained_by, recipe_);
    model_->load(saved.model, checkpoint);
    load_step(saved);
    Saved state = parse_state(saved.state);
    const std::int64_t metrics_bytes = state.metrics_bytes;
    restore_state(std::move(state));
    has_weights_ = true;
    return {std::move(trained_by), metrics_bytes};
}

// The first rank says from where; all read it, and once all have, it alone changes the folder.
void Trainer::resume(const FitOptions& options) {
    const std::string& from = options.resume;
    if (!from.empty()) {  // what an earlier run of this process left behind is not this one's
        pending_.clear();
        bad_here_ = 0;
        step_.take_losses();
    }
    if (options.out.empty()) {
        if (!from.empty()) {
            throw InvalidArgument({.where = "resume", .expected = "a run folder to go on in", .got = "none"});
        }
        return;
    }
    const std::string checkpoint = group_->broadcast(folder_ ? find_start(from).string() : "");
    if (!checkpoint.empty()) {
        const auto [trained_by, metrics_bytes] = load(checkpoint);
        const Resumed resumed = resumed_from(checkpoint, trained_by);
        group_->barrier();  // it may take long to read
        if (folder_) {      // a run that is finished stays what it was
            folder_->cut_metrics(metrics_bytes);
            folder_->go_on(resumed.finished && !trained_by.empty() ? trained_by : recipe_to_toml(recipe_));
            folder_->cut_checkpoints(steps_);
        }
        if (options.on_resume) {
            options.on_resume(resumed);
        }
    } else if (!has_weights_) {
        throw InvalidArgument({.where = "resume",
                               .expected = "a checkpoint, as when the trainer was made",
                               .got = "none",
                               .hint = "begin again"});
    } else if (folder_) {
        folder_->create(recipe_to_toml(recipe_));
    }
    if (folder_) {
        quarantine_.open(folder_->path() / kQuarantine);
        tracker_.emplace(*folder_, steps_);
    }
}

// What is known of the run is written before it ends; the error that ends it is on its way, so further ones are not
// told.
void Trainer::end_failed(const std::string& reason, bool trained) {
    try {
        if (tracker_ && group_->alone()) {  // losses of several ranks need all of them
            settle();
        }
    } catch (const std::exception&) {
    }
    try {
        if (tracker_) {
            tracker_->draw();
        }
    } catch (const std::exception&) {
    }
    tracker_.reset();
    if (folder_) {
        folder_->fail(reason, trained);
        folder_.reset();
    }
}

}  // namespace stoker
