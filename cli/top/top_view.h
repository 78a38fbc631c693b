// Everything that `stoker top` shows at a moment, and how it becomes lines of text or JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/top/live_runs.h"
#include "cli/top/screen_line.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/monitor/host_monitor.h"

namespace stoker::cli {

enum class ProcessSort { cpu, memory, read };
const char* sort_name(ProcessSort sort);

struct TopProcess {
    ProcessRates rates;
    std::string command;  // the program's name and its arguments; in brackets the name of a thread of the kernel
};

struct TopView {
    HostView host;
    std::string host_name;
    bool container = false;
    CpuCores usable_cores;
    std::string gpu_problem;  // why no GPU can be read; empty if they can
    std::vector<LiveRun> runs = {};
    std::vector<TopProcess> processes = {};  // the first ones in the order that was asked for
};

// Fills in `view.processes` with the first `processes` of `view.host.processes`, and reads their commands.
void sort_processes(TopView& view, ProcessSort sort, std::size_t processes);

class TopSource {
  public:
    TopSource();

    // The host since the last call, or since the object was made. Commands of `processes` processes are read.
    TopView next(ProcessSort sort, std::size_t processes);

  private:
    HostMonitor monitor_;
    std::string host_name_;
    bool container_ = false;
};

// The rank of the blank lines between sections.
inline constexpr int kBlankLine = 100;

// Sections from the GPUs to the processes, in their natural width.
struct TopLayout {
    int columns = 80;
    bool blocks = true;  // the terminal shows block characters
};
std::vector<ScreenLine> host_lines(const TopView& view, const TopLayout& layout);
std::vector<ScreenLine> activity_lines(const TopView& view);  // disks, network, runs, processes

// The document of --json (docs/top.md).
nlohmann::ordered_json top_json(const TopView& view);

}  // namespace stoker::cli
