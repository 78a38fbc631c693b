// The end of metrics.jsonl for a run that resumes from a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>

namespace stoker {

// The position of a checkpoint in a run.
struct MetricsPosition {
    std::int64_t bytes = 0;   // the length of metrics.jsonl, as the checkpoint records it
    std::int64_t step = 0;    // of the checkpoint
    std::int64_t epochs = 0;  // finished ones
};

// The length that the file keeps: `bytes` where that is the end of a line of step `step`. Otherwise the number or the
// file is damaged, and all whole lines up to that step and its epochs are kept. 0 for a file that does not exist.
// Throws IoError.
std::int64_t metrics_end(const std::filesystem::path& file, const MetricsPosition& at);

}  // namespace stoker
