// Load averages cover a minute and count waiting threads, so CPU times are compared: those of the processors in
// /proc/stat and those of this process.
#include "cli/bench/other_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "cli/terminal/print.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// User and kernel mode.
double cpu_seconds(int who) {
    rusage used{};
    getrusage(who, &used);
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// The busy time in a line of /proc/stat: "cpu3 user nice system idle iowait irq softirq steal ...", in ticks. 0 for
// other lines and for processors that this process may not use.
double busy_ticks(const std::string& line, const cpu_set_t& usable) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool processor = name.starts_with("cpu") && name.size() > 3;
    if (!processor || !CPU_ISSET(std::stoul(name.substr(3)), &usable)) {
        return 0;
    }
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    words >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
    return user + nice + system + irq + softirq + steal;
}

}  // namespace

OtherLoad::Usage OtherLoad::usage() {
    Usage usage{.all = 0, .own = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)};
    cpu_set_t usable;
    CPU_ZERO(&usable);
    sched_getaffinity(0, sizeof usable, &usable);
    std::ifstream stat("/proc/stat");
    for (std::string line; std::getline(stat, line);) {
        usage.all += busy_ticks(line, usable) / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
    return usage;
}

void OtherLoad::warn() const {
    constexpr double kShortest = 0.2;  // seconds; the times have a resolution of 0.01
    constexpr double kDisturbing = 0.1;
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    const Usage after = usage();
    const double others = ((after.all - before_.all) - (after.own - before_.own)) / passed;
    const CpuCores cores = cpu_cores();
    if (passed > kShortest && others > kDisturbing * cores.usable && others + cores.usable > cores.affinity) {
        print_stderr(
            "stoker: other processes kept {:.1f} of {} busy during the measurement, so these figures are unreliable: "
            "repeat it on an idle machine\n",
            others, pluralize(cores.affinity, "core"));
    }
}

}  // namespace stoker::cli
