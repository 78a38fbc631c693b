// The paths of `stoker diagnose`: run folders, folders of kept records, and traces of torch.profiler.
#pragma once

#include <string>
#include <vector>

#include "stoker/records/records.h"

namespace stoker::cli {

// Whether a folder holds records: one that `stoker train` or `watch --keep` wrote.
bool has_records(const std::string& path);

// One run: a folder of records, traces of its ranks, or a folder of records and traces of it. Throws InvalidArgument
// for two folders of records, and for a folder with neither records nor traces.
RunRecords read_diagnosed(std::vector<std::string> paths);

// A watched program gives the name, as the folder of its records may be a temporary one; else it is the folder's.
std::string title_of(const std::string& path, const RunRecords& records);

}  // namespace stoker::cli
