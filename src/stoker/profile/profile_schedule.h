// Which steps of a run a profiler waits for, warms up in and records: torch.profiler.schedule's arithmetic.
#pragma once

#include <cstdint>

namespace stoker {

struct ProfileSchedule {
    std::int64_t wait = 20;    // steps without the profiler
    std::int64_t warmup = 2;   // steps with the profiler, whose events are dropped
    std::int64_t active = 10;  // recorded steps
    std::int64_t repeat = 1;   // cycles of the three

    enum class Action { none, warm_up, record };

    std::int64_t cycle() const { return wait + warmup + active; }
    std::int64_t steps() const { return repeat * cycle(); }

    // For step `step`, from 0.
    Action at(std::int64_t step) const {
        if (step >= steps()) {
            return Action::none;
        }
        const std::int64_t place = step % cycle();
        return place < wait ? Action::none : place < wait + warmup ? Action::warm_up : Action::record;
    }
};

}  // namespace stoker
