// Steps as numbers, until an interval ends and they are written as lines of JSON (docs/records.md).
#pragma once

#include "python/src/watch/hook_types.h"

#include <vector>

namespace stoker::watch {

struct StepRow {
    long long epoch;
    long long batches;
    long long samples;  // 0: unknown
    long long ready;    // -1: unknown
    long long copied;
    Times times;
};

// stoker._watch.StepRows.
struct StepRows {
    PyObject_HEAD long long steps;  // that were made, also while it was paused
    long long batches;              // in these steps
    long long samples;              // likewise
    long long until;                // a step that ends later calls `due`
    PyObject* due;
    char paused;  // steps are counted, not kept
    std::vector<StepRow>* rows;

    // False: Python has an error.
    bool add(const StepRow& row, std::int64_t now);
};

}  // namespace stoker::watch
