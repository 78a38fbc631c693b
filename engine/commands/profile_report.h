// What `stoker profile` prints: the verdict, where the time went, the most expensive operators, the files.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stoker/diagnose/finding.h"
#include "stoker/profile/key_averages.h"
#include "stoker/profile/profile_files.h"
#include "stoker/profile/profile_run.h"

namespace stoker::cli {

struct OperatorTableOptions {
    std::string sort = "self";
    std::string group_by = "name";
    std::int64_t rows = 12;
};
void add_operator_table_options(CLI::App& app, OperatorTableOptions& options);

// "operators of 10 steps", one a row. Columns without a value in any row are left out.
std::string operator_table(const ProfiledRun& run, const OperatorTableOptions& options);

std::string profile_report(const ProfiledRun& run, const Diagnosis& diagnosis, const OperatorTableOptions& options,
                           std::span<const ProfileFile> files);

}  // namespace stoker::cli
