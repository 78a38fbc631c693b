// The mean of a host's or GPU's counter over a rank's intervals.
#pragma once

#include <optional>

#include "stoker/records/records.h"

namespace stoker {

// Weighted by the intervals' lengths; 0 if the counter was not measured.
inline double counter_mean(const RankRecords& rank, std::optional<double> IntervalEntry::*counter) {
    double sum = 0;
    double seconds = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        if (interval.*counter) {
            sum += *(interval.*counter) * interval.seconds;
            seconds += interval.seconds;
        }
    }
    return seconds > 0 ? sum / seconds : 0;
}

}  // namespace stoker
