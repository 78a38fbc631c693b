#include "stoker/train/run/run_state.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/printable.h"
#include "stoker/records/records_json.h"
#include "stoker/train/run/checkpoint.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kStateVersion = 2;

// JSON lacks NaN: a diverged loss is written as null.
double number(const Json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

// The directions of its metrics are the task's.
EpochResult epoch_from(const Json& json) {
    EpochResult epoch;
    if (!read_epoch(json, epoch)) {
        throw InvalidArgument({.where = "checkpoint",
                               .expected = "a state.json that Stoker wrote",
                               .got = "an epoch with values missing"});
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
        epochs.push_back(json_of(epoch));
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
                 {"loader", parse_own_json<Json>(to_json(state.loader))},
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
    return json_text(json, 2) + "\n";
}

RunState run_state_from_json(const std::string& text) {
    try {
        const Json json = parse_own_json<Json>(text);
        if (json.at("version").get<int>() != kStateVersion) {
            throw InvalidArgument({.where = "checkpoint",
                                   .expected = "version " + std::to_string(kStateVersion),
                                   .got = json_text(json.at("version")),
                                   .hint = "another version of Stoker wrote it: start a new run in another folder, and "
                                           "load its weights with model.weights"});
        }
        const Json& sums = json.at("epoch_so_far");
        RunState state{.loader = loader_state_from_json(json_text(json.at("loader"))),
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
