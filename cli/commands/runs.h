// What the sub-commands of `stoker runs` share: how figures of a run are written, for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {

Command add_runs_list(CLI::App& app);
Command add_runs_compare(CLI::App& app);
Command add_runs_export(CLI::App& app);

// Throws InvalidArgument where the folder is no run's.
RunRecord open_run(const std::string& path, MetricLines lines);

std::string epochs_text(const RunRecord& run);  // "3/5"
std::string state_text(const RunRecord& run);   // "finished", "stopped at step 120", "failed at step 40", "at step 96"
std::string number_text(double value);          // 0.4889, 123.4, 1,234; "-" where it is not finite
// None where the loss on the validation data is not a finite number.
std::optional<double> accuracy_of(const EpochLine& epoch);
std::string percent_text(const std::optional<double>& share);
std::string rate_text(double per_second);
std::string time_text(const std::optional<std::int64_t>& ns);  // local: "2026-01-31 09:05"

// {"name", "path", "model", "data", "epochs_done", ...}: docs/runs.md.
nlohmann::ordered_json run_json(const RunRecord& run);
nlohmann::ordered_json epochs_json(const RunRecord& run);
void print_json(const nlohmann::ordered_json& document);
// Below a table: why runs failed, and what is wrong with their files, a line each.
void print_troubles(const std::vector<RunRecord>& runs);

}  // namespace stoker::cli
