// Formatting of a run's results, as text and as JSON, for the sub-commands of `stoker runs`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "stoker/track/main_metric.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {

Command add_runs_list(CLI::App& app);
Command add_runs_compare(CLI::App& app);
Command add_runs_export(CLI::App& app);

// Throws InvalidArgument if the folder is not a run folder.
RunRecord open_run(const std::string& path, MetricLines lines);

std::string epochs_text(const RunRecord& run);  // "3/5"
std::string state_text(const RunRecord& run);   // "finished", "stopped at step 120", "failed at step 40", "at step 96"
std::string loss_text(double value);            // number_text; "-" if not finite
// The main metric of an epoch. Empty if there is none or the validation loss is not finite, as that of such a model is
// chance.
std::optional<Metric> metric_of(const EpochResult& epoch);
std::string value_text(const std::optional<Metric>& metric);  // "71.20 %", "0.312"; "-" without one
// The name of the main metric of all these runs; empty if it differs. "accuracy" where none has one.
std::string metric_name(const std::vector<RunRecord>& runs);
std::string rate_text(double per_second);
std::string time_text(const std::optional<std::int64_t>& ns);  // local: "2026-01-31 09:05"

// {"name", "path", "model", "data", "epochs_done", ...}: docs/runs.md.
nlohmann::ordered_json run_json(const RunRecord& run);
nlohmann::ordered_json epochs_json(const RunRecord& run);
// Lines below a table: why runs failed, and problems with their files.
void print_problems(const std::vector<RunRecord>& runs);

}  // namespace stoker::cli
