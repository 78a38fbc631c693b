#include "stoker/train/run/train_result.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stoker/base/json_depth.h"
#include "stoker/records/records_json.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

// Of the last epoch that was evaluated; null if there is none.
Json main_metric(const std::vector<EpochResult>& epochs) {
    const auto evaluated = [](const EpochResult& epoch) { return !epoch.val_metrics.empty(); };
    const auto found = std::find_if(epochs.rbegin(), epochs.rend(), evaluated);
    if (found == epochs.rend()) {
        return nullptr;
    }
    const Metric& metric = found->val_metrics.front();
    return {{"name", metric.name}, {"value", metric.value}, {"higher_is_better", metric.higher_is_better}};
}

Json json_of(const std::optional<DeviceMemory>& memory) {
    if (!memory) {
        return nullptr;
    }
    return {{"allocated_bytes", memory->allocated},
            {"reserved_bytes", memory->reserved},
            {"peak_allocated_bytes", memory->peak_allocated},
            {"peak_reserved_bytes", memory->peak_reserved},
            {"retries", memory->retries}};
}

}  // namespace

std::string to_json(const TrainResult& result) {
    Json epochs = Json::array();
    for (const auto& epoch : result.epochs) {
        epochs.push_back(json_of(epoch));
    }
    Json workers = {{"threads", result.workers_used}, {"samples", result.workers.samples}};
    const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
    for (std::size_t i = 0; i < kStages; ++i) {
        const Stage stage = static_cast<Stage>(i);
        workers[std::string(stage_name(stage)) + "_seconds"] = seconds(result.workers[stage]);
    }
    workers["decode_seconds"] = seconds(result.workers[Stage::entropy] + result.workers[Stage::pixels]);
    const Json json = {
        {"run", result.run.string()},
        {"resumed_from_step", result.resumed_from_step ? Json(*result.resumed_from_step) : Json(nullptr)},
        {"steps", result.steps},
        {"interrupted", result.interrupted},
        {"epochs", epochs},
        {"account", parse_own_json<Json>(account_json(result.account))},
        {"workers", workers},
        {"peak_rss_mb", result.peak_rss_mb},
        {"device", result.device},
        {"memory", json_of(result.memory)},
        {"compiled", result.compiled},
        {"threads", result.threads},
        {"ranks", result.ranks},
        {"bad_samples", result.bad_samples},
        {"metric", main_metric(result.epochs)},
        {"best_epoch", result.best_epoch ? Json(*result.best_epoch) : Json(nullptr)},
        {"stopped_early", result.stopped_early},
    };
    return json_text(json, 2);
}

std::string reuse_document(const std::string& stored, const std::string& current) {
    Json document = parse_json<Json>(stored);
    const Json result = parse_own_json<Json>(current);
    const bool same_run = document.is_object() && document.value("interrupted", Json()) == Json(false) &&
                          document.value("steps", Json()) == result["steps"] &&
                          document.value("epochs", Json()) == result["epochs"];
    if (!same_run) {
        return "";
    }
    document["resumed_from_step"] = result["resumed_from_step"];
    return json_text(document, 2);
}

}  // namespace stoker
