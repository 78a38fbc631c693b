// A run's folder is found by the lock that its process holds on it (base/folder_lock.h), and read through that
// descriptor in /proc: that works for any --out, for programs of users, and across the file systems of containers.
#include "cli/top/live_runs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/statistics.h"
#include "stoker/monitor/counter_text.h"
#include "stoker/records/line_file.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSteps = 200;  // recent, and enough for a median

double seconds_in(const StepEntry& step, Phase phase) {
    return std::chrono::duration<double>(step.host.times[static_cast<std::size_t>(phase)]).count();
}

// Empty without a step that took time.
std::optional<RunTail> summary_of(std::span<const StepEntry> steps) {
    RunTail tail{.steps = static_cast<std::int64_t>(steps.size())};
    std::vector<double> seconds;
    double sum = 0;
    double wait = 0;
    double samples = 0;  // not known of every watched program
    double ready = 0;
    double with_ready = 0;
    for (const StepEntry& step : steps) {
        const double pauses = seconds_in(step, Phase::evaluate) + seconds_in(step, Phase::checkpoint);
        seconds.push_back(std::chrono::duration<double>(step.host.total()).count() - pauses);
        sum += seconds.back();
        wait += seconds_in(step, Phase::wait);
        samples += static_cast<double>(step.samples.value_or(0));
        ready += step.ready.value_or(0);
        with_ready += step.ready ? 1 : 0;
        tail.loss = step.loss ? step.loss : tail.loss;
    }
    if (sum <= 0) {
        return std::nullopt;
    }
    tail.step = steps.back().step;
    tail.epoch = steps.back().epoch;
    tail.step_seconds = median(seconds);
    tail.wait_share = wait / sum;
    if (samples > 0) {
        tail.images_per_second = samples / sum;
    }
    if (with_ready > 0) {
        tail.ready_batches = ready / with_ready;
    }
    return tail;
}

// True if a process holds a lock (flock) through this descriptor. It is not touched itself: a dead network's files
// would block us.
bool is_locked(const std::string& process, const std::string& descriptor) {
    const auto info = read_counter_file(process + "/fdinfo/" + descriptor);
    return info && info->find("FLOCK") != std::string::npos;
}

}  // namespace

// Each rank of a large job writes lines between two steps, so more of the file is read where its end has none. The
// first and the last line may be cut. Lines of other records are skipped.
void LiveRuns::read_tail(const std::string& metrics, LiveRun& run, Tail& tail) {
    constexpr std::uint64_t kTail = std::uint64_t{1} << 17;  // about 500 steps
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24;
    try {
        const FileInfo info = File(metrics).info();
        if (info.size < tail.end) {  // cut by a run that resumes
            tail = {};
        }
        const auto add = [&](std::string_view line) {
            RecordLine record = reader_.read(line);
            auto* const step = std::get_if<StepEntry>(&record.entry);
            if (step != nullptr && record.complete) {
                add_in_order(tail.steps, std::move(*step), &StepEntry::step);
            }
        };
        const auto back = [&](std::uint64_t bytes) { return info.size - std::min(info.size, bytes); };
        const std::uint64_t first = std::max(tail.end, back(kMost));
        for (std::uint64_t bytes = tail.steps.empty() ? kTail : kMost;; bytes *= 2) {
            const std::uint64_t begin = std::max(first, back(bytes));
            const auto take = [&](std::string_view line, std::uint64_t offset) {
                tail.end = offset + line.size() + 1;
                add(line);
            };
            add(for_each_line(metrics, take, begin));
            if (!tail.steps.empty() || begin == first) {
                break;
            }
        }
        const std::size_t surplus = tail.steps.size() - std::min(tail.steps.size(), kSteps);
        tail.steps.erase(tail.steps.begin(), tail.steps.begin() + static_cast<std::ptrdiff_t>(surplus));
        run.tail = summary_of(tail.steps);
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        run.written_seconds =
            std::max(1e-9 * static_cast<double>(std::chrono::nanoseconds(now).count() - info.modified_ns), 0.0);
    } catch (const Error&) {  // not written yet, cut meanwhile, or no lines: the next reading will do
        tail = {};
    }
}

// The run that the process writes, if any.
std::optional<LiveRun> LiveRuns::run_of(std::int64_t pid) {
    const std::string process = fmt::format("/proc/{}", pid);
    std::error_code error;  // other users' processes, and those that ended: they have no descriptors for us
    for (fs::directory_iterator entry(process + "/fd", error), end; entry != end; entry.increment(error)) {
        std::error_code closed;
        const fs::path target = fs::read_symlink(entry->path(), closed);
        if (!target.is_absolute() || !is_locked(process, entry->path().filename()) || !is_run_folder(entry->path())) {
            continue;  // "socket:[1]" is not absolute
        }
        LiveRun run{.pid = pid, .path = target.string()};
        read_tail(entry->path() / kMetricsFile, run, tails_[{pid, run.path}]);
        return run;
    }
    return std::nullopt;
}

std::vector<LiveRun> LiveRuns::find(std::span<const ProcessRates> processes) {
    std::vector<LiveRun> runs;
    for (const ProcessRates& process : processes) {
        if (auto run = run_of(process.pid)) {
            runs.push_back(std::move(*run));
        }
    }
    std::erase_if(tails_, [&](const auto& tail) {
        return std::ranges::none_of(runs,
                                    [&](const LiveRun& run) { return tail.first == std::pair(run.pid, run.path); });
    });
    return runs;
}

}  // namespace stoker::cli
