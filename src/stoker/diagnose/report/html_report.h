// One HTML file about a run or a trace: the verdict, what to do, and the charts behind it. It has its data, style and
// script in itself and opens without a network. `stoker profile` fills all fields; of a run folder there are records
// only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/diagnose/finding.h"
#include "stoker/records/records.h"

namespace stoker {

// A rectangle of the timeline. Spans of one lane may nest: they are drawn in rows by depth.
struct TimelineSpan {
    std::string lane;  // "training thread", "worker 2", "GPU 0 stream 7"; lanes are shown in the order of appearance
    std::string name;
    double start_us = 0;  // from any common zero
    double duration_us = 0;
};

// A function or operator of the flame graph with all that it called.
struct FlameFrame {
    std::string name;
    double value_us = 0;  // with the children's time
    std::vector<FlameFrame> children = {};
};

struct MemoryPoint {
    double us = 0;  // on the timeline's clock
    std::int64_t bytes = 0;
};

struct MemoryCurve {
    std::string name;                      // "GPU 0 allocated", "process"
    std::vector<MemoryPoint> points = {};  // ascending
};

// A row of the operator table, by name, shapes and place of call. The page sums them by any of the three.
struct OperatorRow {
    std::string name = {};
    std::string shapes = {};  // "[[256, 784], [784, 128]]"; empty: not recorded
    std::string place = {};   // "train.py:41"; empty: not recorded
    std::int64_t count = 0;
    double self_us = 0;           // host time without the operators that it calls
    double total_us = 0;          // host time with them
    double device_us = 0;         // of the kernels that it launched
    std::int64_t self_bytes = 0;  // allocated and not freed by it
    double flops = 0;             // floating-point operations, over all calls; 0: unknown
};

struct Report {
    std::string title = {};  // the run folder's or the watched program's name
    RunRecords records = {};
    Diagnosis diagnosis = {};
    // Added by a profile. Empty: the page says that none was taken, or shows those of the records: the operators of
    // the profile's entry, memory at the ends of intervals. Batches ready in the queue are always from the records.
    std::vector<TimelineSpan> timeline = {};  // of a few steps of one rank, in any order
    std::vector<FlameFrame> flame = {};       // the frames without a caller
    std::vector<MemoryCurve> memory = {};
    std::vector<OperatorRow> operators = {};
};

// The page's size does not grow with the run: steps, spans, frames and points are joined into a few thousand, without
// losing sums and peaks. Text of any content is safe: it is data to the page, never markup.
std::string report_html(const Report& report);

}  // namespace stoker
