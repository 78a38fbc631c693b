// A data set's line of advice on stderr: the samples that it leaves out, or why it is slow to read.
#pragma once

#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/formats/dataset.h"

namespace stoker::cli {

inline void print_advice(const Dataset& dataset) {
    constexpr std::size_t kWidest = 400;
    if (const std::string advice = dataset.advice(); !advice.empty()) {
        print_stderr("{}: {}\n", for_terminal(dataset.path(), kWidest), for_terminal(advice, kWidest));
    }
}

}  // namespace stoker::cli
