// A diagnosis as text for a person: the verdict, where the time went, the GPU, the findings with what to do.
#pragma once

#include <string>

#include "stoker/diagnose/diagnose.h"
#include "stoker/records/records.h"

namespace stoker::cli {

// Several lines. Names from files are not made printable here; print_lines does that.
std::string diagnosis_text(const RunRecords& records, const Diagnosis& diagnosis);

}  // namespace stoker::cli
