// Writes a profile's files into a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stoker/diagnose/finding.h"
#include "stoker/profile/profile_run.h"
#include "stoker/records/records.h"

namespace stoker {

struct ProfileFile {
    std::filesystem::path path;
    std::string purpose;  // "Chrome trace: open it in ui.perfetto.dev"
};

// The traces are in `folder`/trace, because HolisticTraceAnalysis takes every JSON file of a folder for a trace.
inline constexpr const char* kTraceFolder = "trace";

// Makes `folder` and returns the traces of earlier profiles in it, for remove_traces once there is a new one. Throws
// IoError, also if the folder is not a profile but has files that one would replace, such as the folder of a run.
std::vector<std::filesystem::path> prepare_profile_folder(const std::filesystem::path& folder);
// Removes those that are still there: each process of a run does.
void remove_traces(const std::vector<std::filesystem::path>& traces);

// The trace of this rank. The folder must be prepared. Throws IoError.
ProfileFile write_trace(const std::filesystem::path& folder, const Profile& profile, const DeviceFacts& device);

// Reads the trace back and adds what the rules need of it to the rank that wrote it: operators, copies, waits, the
// GPU's time. So a profile and a trace of torch.profiler are judged alike. Throws what read_traces throws.
void add_trace(RunRecords& records, int rank, const std::filesystem::path& trace);

// report.html: everything on one page. `name` is the recipe's. Throws IoError.
ProfileFile write_page(const std::filesystem::path& folder, const ProfiledRun& run, const Diagnosis& diagnosis,
                       const std::string& name);

// metrics.jsonl, recipe.toml, operators.json, memory.json, speedscope.json, stacks.txt and profile.pstats. `name` is
// the recipe's. Throws IoError.
std::vector<ProfileFile> write_tables(const std::filesystem::path& folder, const ProfiledRun& run,
                                      const std::string& name);

}  // namespace stoker
