// The steps of a rank that findings are about: the first ones, which fill the pipeline, are left out.
#pragma once

#include <chrono>
#include <cstdint>

#include "stoker/records/records.h"

namespace stoker {

struct JudgedSteps {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::int64_t steps = 0;
    StepRecord account = {};  // of the training thread in these steps, with reads of losses after them
    double median_step = 0;   // seconds

    bool judges(const StepEntry& step) const {
        return step.step >= first_step && step.step <= last_step && !step.warm_up;
    }
};

JudgedSteps judged_steps(const RankRecords& rank);

inline double seconds_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

}  // namespace stoker
