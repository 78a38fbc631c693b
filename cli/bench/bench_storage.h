// `stoker bench storage`: how fast samples' bytes come from each kind of storage.
#pragma once

#include "cli/command.h"

namespace stoker::cli {

Command add_bench_storage(CLI::App& app);

}  // namespace stoker::cli
