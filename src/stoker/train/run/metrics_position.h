// The part of metrics.jsonl that a run keeps when it resumes from a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace stoker {

// The position of a checkpoint in a run.
struct MetricsPosition {
    std::int64_t bytes = 0;   // the length of metrics.jsonl, as the checkpoint records it
    std::int64_t step = 0;    // of the checkpoint
    std::int64_t epochs = 0;  // finished ones
};

struct KeptMetrics {
    std::vector<std::string_view> parts = {};  // of the text, in its order
    std::int64_t bytes = 0;                    // of all parts
    std::int64_t damaged = 0;                  // lines between them that cannot be read
    std::int64_t last_step = 0;                // of the kept lines
};

// The lines that belong to the run up to the checkpoint: all up to `bytes` where that is the end of a line of step
// `step`. Otherwise the number or the file is damaged, and all whole lines up to that step and its epochs are kept.
KeptMetrics kept_metrics(std::string_view text, const MetricsPosition& at);

}  // namespace stoker
