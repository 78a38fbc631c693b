// A trace file as torch.profiler (Kineto) writes it -> its events.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

// Reads plain and gzip files of any size; memory grows by some 60 bytes with each event. A file that is cut short or
// damaged gives what can be read, and one entry in `problems`. Throws DataError for a file that is not a trace, IoError
// for one that cannot be read.
TraceEvents read_trace_file(const std::filesystem::path& path);

// The same for bytes in memory; `name` is for messages.
TraceEvents read_trace_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace stoker
