#include "cli/top/top_view.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/file.h"
#include "stoker/monitor/counter_text.h"

namespace stoker::cli {
namespace {

std::string own_host_name() {
    char name[256] = "";
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The marks that container engines leave. Kubernetes leaves none but the name of the first process's cgroup.
bool in_container() {
    const std::string groups = read_counter_file("/proc/1/cgroup").value_or("");
    const auto has = [&](const char* name) { return groups.find(name) != std::string::npos; };
    return is_file("/.dockerenv") || is_file("/run/.containerenv") || std::getenv("container") != nullptr ||
           std::getenv("KUBERNETES_SERVICE_HOST") != nullptr || has("docker") || has("kubepods") || has("containerd");
}

std::string command_of(const ProcessRates& process) {
    std::vector<std::string> words = read_command(process.pid);
    while (!words.empty() && words.back().empty()) {  // programs that set their own title leave blanks
        words.pop_back();
    }
    if (!words.empty() && words[0].starts_with('/')) {
        words[0] = std::filesystem::path(words[0]).filename();  // a long folder would hide the arguments
    }
    return words.empty() ? fmt::format("[{}]", process.name) : fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

const char* sort_name(ProcessSort sort) {
    return sort == ProcessSort::cpu ? "CPU" : sort == ProcessSort::memory ? "memory" : "reads";
}

TopSource::TopSource() : host_name_(own_host_name()), container_(in_container()) {}

TopView TopSource::next(ProcessSort sort, std::size_t processes) {
    TopView view{.host = monitor_.next(),
                 .host_name = host_name_,
                 .container = container_,
                 .usable_cores = cpu_cores(),
                 .gpu_problem = monitor_.nvml().problem()};
    view.runs = runs_.find(view.host.processes);
    sort_processes(view, sort, processes);
    return view;
}

void sort_processes(TopView& view, ProcessSort sort, std::size_t processes) {
    std::vector<ProcessRates>& all = view.host.processes;
    std::erase_if(all, [](const ProcessRates& process) {  // idle threads of the kernel
        return process.rss_bytes == 0 && process.cores <= 0;
    });
    std::ranges::stable_sort(all, [sort](const ProcessRates& one, const ProcessRates& other) {
        switch (sort) {
            case ProcessSort::cpu:
                return one.cores > other.cores;
            case ProcessSort::memory:
                return one.rss_bytes > other.rss_bytes;
            case ProcessSort::read:
                return one.read_bytes.value_or(-1) > other.read_bytes.value_or(-1);
        }
        return false;
    });
    view.processes.clear();
    for (std::size_t i = 0; i < std::min(processes, all.size()); ++i) {
        view.processes.push_back({.rates = all[i], .command = command_of(all[i])});
    }
}

}  // namespace stoker::cli
