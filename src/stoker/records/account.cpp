// One clock read per change of phase. Times are integer nanoseconds, so that the parts sum to the total exactly.
#include "stoker/records/account.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "stoker/base/json_depth.h"
#include "stoker/records/accounting.h"

namespace stoker {

std::string_view phase_name(Phase phase) {
    static constexpr std::array<std::string_view, kPhases> kNames = {
        "wait",          "copy", "forward",  "backward",   "optimizer",  "step",
        "communication", "sync", "evaluate", "checkpoint", "unmeasured",
    };
    return kNames[static_cast<std::size_t>(phase)];
}

std::chrono::nanoseconds StepRecord::total() const {
    return std::accumulate(times.begin(), times.end(), std::chrono::nanoseconds{0});
}

double StepRecord::share(Phase phase) const {
    const auto whole = total().count();
    const auto part = times[static_cast<std::size_t>(phase)].count();
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Phase Account::enter(Phase phase) {
    if (!accounting()) {
        return std::exchange(current_, phase);
    }
    const auto now = Clock::now();
    step_.times[static_cast<std::size_t>(current_)] += now - since_;
    since_ = now;
    if (listener_ != nullptr && phase != current_) {
        listener_->entered(phase);
    }
    return std::exchange(current_, phase);
}

StepRecord Account::take_record() {
    enter(current_);
    const StepRecord record = std::exchange(step_, {});
    for (std::size_t i = 0; i < kPhases; ++i) {
        sum_.times[i] += record.times[i];
    }
    return record;
}

void Account::restore(const StepRecord& sum) {
    sum_ = sum;
    step_ = {};
    since_ = Clock::now();
}

std::string account_json(const StepRecord& record) {
    nlohmann::ordered_json json;
    json["schema"] = StepRecord::kVersion;
    json["seconds"] = std::chrono::duration<double>(record.total()).count();
    for (std::size_t i = 0; i < kPhases; ++i) {
        const Phase phase = static_cast<Phase>(i);
        json[std::string(phase_name(phase))] = record.share(phase);
    }
    return json_text(json);
}

}  // namespace stoker
