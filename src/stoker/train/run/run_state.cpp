#include "stoker/train/run/run_state.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/printable.h"
#include "stoker/records/record_writer.h"
#include "stoker/train/run/checkpoint.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kStateVersion = 2;

// JSON has no NaN: a diverged loss is written as null.
double number(const Json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

// Their directions are the task's and are not stored.
std::vector<Metric> metrics_from(const EpochResult& epoch, const Json& json) {
    std::vector<Metric> metrics;
    if (epoch.val_accuracy) {
        metrics.push_back({"accuracy", *epoch.val_accuracy});
    }
    if (epoch.val_top5_accuracy) {
        metrics.push_back({"top5_accuracy", *epoch.val_top5_accuracy});
    }
    const Json own = json.value("val_metrics", Json::object());
    for (const auto& [name, value] : own.items()) {
        metrics.push_back({name, number(value)});
    }
    return metrics;
}

EpochResult epoch_from(const Json& json) {
    const auto optional = [&](const char* key) {
        return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<double>());
    };
    EpochResult epoch{.epoch = json.at("epoch").get<std::int64_t>(),
                      .seconds = json.at("seconds").get<double>(),
                      .images_per_second = json.at("images_per_second").get<double>(),
                      .train_loss = number(json.at("train_loss")),
                      .val_loss = optional("val_loss"),
                      .val_accuracy = optional("val_accuracy"),
                      .val_top5_accuracy = optional("val_top5_accuracy"),
                      .bad_samples = json.value("bad_samples", std::int64_t{0}),
                      .val_bad_samples = json.value("val_bad_samples", std::int64_t{0})};
    epoch.val_metrics = metrics_from(epoch, json);
    if (const auto bubble = json.find("bubble"); bubble != json.end()) {
        epoch.bubble = Bubble{.formula = bubble->at("formula").get<double>(),
                              .stages = bubble->at("stages").get<std::vector<double>>()};
    }
    if (!epoch.val_loss && (!epoch.val_metrics.empty() ||
                            json.value("evaluated", false))) {  // it was evaluated, to a loss that is not finite
        epoch.val_loss = std::numeric_limits<double>::quiet_NaN();
    }
    return epoch;
}

}  // namespace

DataSummary summary_of(const Dataset& dataset) {
    const std::string format(dataset.format());
    const bool may_be_files = format == "image_folder" || format == "concat";
    return {.format = format, .bytes = may_be_files ? 0 : dataset.bytes()};
}

std::string to_json(const RunState& state) {
    Json epochs = Json::array();
    for (const EpochResult& epoch : state.epochs) {
        epochs.push_back(Json::parse(to_json(epoch_entry(epoch))));
        if (epoch.val_loss && !std::isfinite(*epoch.val_loss)) {  // JSON has no such number
            epochs.back()["evaluated"] = true;
        }
    }
    Json account = Json::object();
    for (std::size_t i = 0; i < kPhases; ++i) {
        account[std::string(phase_name(static_cast<Phase>(i)))] = state.account.times[i].count();
    }
    std::vector<std::string> classes;
    std::ranges::transform(state.classes, std::back_inserter(classes), utf8_text);
    Json json = {{"version", kStateVersion},
                 {"step", state.step},
                 {"loader", Json::parse(to_json(state.loader))},
                 {"classes", classes},
                 {"epochs", epochs},
                 {"epoch_so_far",
                  {{"loss_sum", state.sums.loss},
                   {"samples", state.sums.samples},
                   {"seconds", state.sums.seconds},
                   {"bad_samples", state.sums.bad_samples}}},
                 {"account_ns", account},
                 {"recipe", state.recipe},
                 {"accumulate", state.accumulate},
                 {"metrics_bytes", state.metrics_bytes},
                 {"data", {{"format", state.data.format}, {"bytes", state.data.bytes}}}};
    if (!state.model_hash.empty()) {
        json["model_file"] = {{"hash", state.model_hash}};
    }
    return json.dump(2) + "\n";
}

RunState run_state_from_json(const std::string& text) {
    try {
        const Json json = Json::parse(text);
        if (json.at("version").get<int>() != kStateVersion) {
            throw InvalidArgument({.where = "checkpoint",
                                   .expected = "version " + std::to_string(kStateVersion),
                                   .got = json.at("version").dump(),
                                   .hint = "another version of Stoker wrote it: start a new run with --out DIR, and "
                                           "load its weights with model.weights"});
        }
        const Json& sums = json.at("epoch_so_far");
        RunState state{.loader = loader_state_from_json(json.at("loader").dump()),
                       .classes = json.at("classes").get<std::vector<std::string>>(),
                       .step = json.at("step").get<std::int64_t>(),
                       .epochs = {},
                       .sums = {.loss = number(sums.at("loss_sum")),
                                .seconds = sums.at("seconds").get<double>(),
                                .samples = sums.at("samples").get<std::int64_t>(),
                                .bad_samples = sums.value("bad_samples", std::int64_t{0})},
                       .account = {},
                       .accumulate = json.at("accumulate").get<std::int64_t>(),
                       .metrics_bytes = json.at("metrics_bytes").get<std::int64_t>()};
        if (const auto data = json.find("data"); data != json.end()) {
            state.data = {.format = data->at("format").get<std::string>(),
                          .bytes = data->at("bytes").get<std::int64_t>()};
        }
        std::ranges::transform(json.at("epochs"), std::back_inserter(state.epochs), epoch_from);
        for (std::size_t i = 0; i < kPhases; ++i) {
            state.account.times[i] = std::chrono::nanoseconds(
                json.at("account_ns").value(phase_name(static_cast<Phase>(i)), std::int64_t{0}));
        }
        return state;
    } catch (const nlohmann::json::exception& error) {
        throw InvalidArgument(
            {.where = "checkpoint", .expected = "a state.json that Stoker wrote", .got = json_reason(error)});
    }
}

void require_consistent(const RunState& state, std::int64_t batches_per_epoch) {
    const auto finished = static_cast<std::int64_t>(state.epochs.size());
    const LoaderState& loader = state.loader;
    // After an epoch's last step its evaluation may still be missing.
    const bool epochs_fit = finished == loader.epoch || (finished == loader.epoch - 1 && loader.batch == 0);
    const bool step_fits = state.step >= 0 && state.step / batches_per_epoch == loader.epoch &&
                           state.step % batches_per_epoch == loader.batch;
    if (!step_fits || !epochs_fit || state.sums.samples < 0) {
        throw InvalidArgument(
            {.where = "checkpoint",
             .expected = "a state.json whose step, epochs and loader agree",
             .got = fmt::format("step {} and {} finished epochs, but a loader in epoch {} at batch {}", state.step,
                                finished, loader.epoch, loader.batch),
             .hint = "resume from another checkpoint"});
    }
}

}  // namespace stoker
