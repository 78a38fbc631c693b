// Runs all rules over a run's records and says in one sentence what matters most.
#pragma once

#include <span>
#include <string>

#include "stoker/diagnose/finding.h"
#include "stoker/records/records.h"

namespace stoker {

// All rules, in the order of docs/diagnosis.md.
std::span<const Rule> rules();

Diagnosis diagnose(const RunRecords& records);

// The document of `stoker diagnose --json` (docs/diagnosis.md).
std::string to_json(const RunRecords& records, const Diagnosis& diagnosis);

}  // namespace stoker
