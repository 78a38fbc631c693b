// The step's line is written every step, so it is formatted straight; the rest goes through JSON
// objects.
#include "stoker/train/run/run_metrics.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/train/trainer.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

Json epoch_json(const EpochResult& epoch) {
    const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
    return {{"epoch", epoch.epoch},
            {"seconds", epoch.seconds},
            {"images_per_second", epoch.images_per_second},
            {"train_loss", epoch.train_loss},
            {"val_loss", optional(epoch.val_loss)},
            {"val_accuracy", optional(epoch.val_accuracy)},
            {"val_top5_accuracy", optional(epoch.val_top5_accuracy)},
            {"bad_samples", epoch.bad_samples},
            {"val_bad_samples", epoch.val_bad_samples}};
}

Json memory_json(const DeviceMemory& memory) {
    return {{"allocated_bytes", memory.allocated},
            {"reserved_bytes", memory.reserved},
            {"peak_allocated_bytes", memory.peak_allocated},
            {"peak_reserved_bytes", memory.peak_reserved},
            {"retries", memory.retries}};
}

}  // namespace

std::string step_metric(const StepMetric& metric, double loss) {
    std::string line = fmt::format(
        R"({{"type":"step","schema":{},"step":{},"epoch":{},"samples":{},"loss":{},"lr":{},"batch_hash":"{:016x}","us":{{)",
        StepRecord::kVersion, metric.step, metric.epoch, metric.samples,
        std::isfinite(loss) ? fmt::to_string(loss) : "null", metric.lr, metric.batch_hash);
    for (std::size_t i = 0; i < kPhases; ++i) {
        fmt::format_to(std::back_inserter(line), R"({}"{}":{})", i == 0 ? "" : ",", phase_name(static_cast<Phase>(i)),
                       metric.record.times[i].count() / 1000);
    }
    return line + "}}";
}

std::string epoch_metric(const EpochResult& result, std::int64_t step) {
    Json json = {{"type", "epoch"}, {"schema", StepRecord::kVersion}, {"step", step}};
    json.update(epoch_json(result));
    return json.dump();
}

std::string to_json(const TrainResult& result) {
    Json epochs = Json::array();
    for (const auto& epoch : result.epochs) {
        epochs.push_back(epoch_json(epoch));
    }
    Json workers = {{"threads", result.workers_used}, {"samples", result.workers.samples}};
    for (std::size_t i = 0; i < kStages; ++i) {
        const Stage stage = static_cast<Stage>(i);
        workers[std::string(stage_name(stage)) + "_seconds"] =
            std::chrono::duration<double>(result.workers[stage]).count();
    }
    const Json json = {
        {"run", result.run.string()},
        {"resumed_from_step", result.resumed_from_step ? Json(*result.resumed_from_step) : Json(nullptr)},
        {"steps", result.steps},
        {"interrupted", result.interrupted},
        {"epochs", epochs},
        {"account", Json::parse(account_json(result.account))},
        {"workers", workers},
        {"peak_rss_mb", result.peak_rss_mb},
        {"device", result.device},
        {"memory", result.memory ? memory_json(*result.memory) : Json(nullptr)},
        {"compiled", result.compiled},
        {"threads", result.threads},
        {"ranks", result.ranks},
    };
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string told_again(const std::string& before, const std::string& now) {
    Json then = Json::parse(before, nullptr, /*allow_exceptions=*/false);
    const Json result = Json::parse(now);
    const bool same_run = then.is_object() && then.value("interrupted", Json()) == Json(false) &&
                          then.value("steps", Json()) == result["steps"] &&
                          then.value("epochs", Json()) == result["epochs"];
    if (!same_run) {
        return "";
    }
    then["resumed_from_step"] = result["resumed_from_step"];
    return then.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stoker
