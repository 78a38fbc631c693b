// A run's folder is found by the lock that its process holds on it (base/folder_lock.h), and read through that
// descriptor in /proc: that works for any --out, for programs of users, and across the file systems of containers.
#include "cli/top/live_runs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/statistics.h"
#include "stoker/monitor/counter_text.h"
#include "stoker/records/records_json.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

// The end of the file, and how long ago it was written. Each rank of a large job writes lines between two steps, so
// more of the file is read if its end has none.
void read_tail(const fs::path& metrics, LiveRun& run) {
    constexpr std::uint64_t kTail = std::uint64_t{1} << 17;  // about 500 steps
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24;
    try {
        const File file(metrics);
        const FileInfo info = file.info();
        bool whole = false;
        for (std::uint64_t bytes = kTail; !whole && !run.tail && bytes <= kMost; bytes *= 2) {
            std::string text(std::min(info.size, bytes), '\0');
            file.read(info.size - text.size(), std::as_writable_bytes(std::span(text)));
            run.tail = parse_run_tail(text);
            whole = text.size() == info.size;
        }
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        run.written_seconds =
            std::max(1e-9 * static_cast<double>(std::chrono::nanoseconds(now).count() - info.modified_ns), 0.0);
    } catch (const IoError&) {  // not written yet, or cut meanwhile by a run that resumes: the next reading will do
        run.tail.reset();
    }
}

// True if a process holds a lock (flock) through this descriptor. It is not touched itself: a dead network's files
// would block us.
bool is_locked(const std::string& process, const std::string& descriptor) {
    const auto info = read_counter_file(process + "/fdinfo/" + descriptor);
    return info && info->find("FLOCK") != std::string::npos;
}

// The run that the process writes, if any.
std::optional<LiveRun> run_of(std::int64_t pid) {
    const std::string process = fmt::format("/proc/{}", pid);
    std::error_code error;  // other users' processes, and those that ended: they have no descriptors for us
    for (fs::directory_iterator entry(process + "/fd", error), end; entry != end; entry.increment(error)) {
        std::error_code closed;
        const fs::path target = fs::read_symlink(entry->path(), closed);
        if (!target.is_absolute() || !is_locked(process, entry->path().filename()) || !is_run_folder(entry->path())) {
            continue;  // "socket:[1]" is not absolute
        }
        LiveRun run{.pid = pid, .path = target.string()};
        read_tail(entry->path() / kMetricsFile, run);
        return run;
    }
    return std::nullopt;
}

}  // namespace

std::optional<RunTail> parse_run_tail(std::string_view text) {
    constexpr std::size_t kMost = 200;  // steps: recent, and enough for a median
    RunTail tail;
    std::vector<double> seconds;
    double sum = 0;
    double wait = 0;
    double samples = 0;  // not known of every watched program
    double ready = 0;
    double with_ready = 0;
    while (!text.empty() && seconds.size() < kMost) {  // from the last line to the first
        text.remove_suffix(text.ends_with('\n') ? 1 : 0);
        const std::size_t start = text.rfind('\n') + 1;  // npos + 1 is 0
        const RecordLine record = read_record(text.substr(start), {"step"});
        text.remove_suffix(text.size() - start);
        const auto* const step = std::get_if<StepEntry>(&record.entry);
        if (step == nullptr || !record.complete) {
            continue;
        }
        if (seconds.empty()) {
            tail.step = step->step;
            tail.epoch = step->epoch;
        }
        ready += step->ready.value_or(0);
        with_ready += step->ready ? 1 : 0;
        tail.loss = tail.loss ? tail.loss : step->loss;
        const auto spent = [&](Phase phase) {
            return std::chrono::duration<double>(step->host.times[static_cast<std::size_t>(phase)]).count();
        };
        const double whole = std::chrono::duration<double>(step->host.total()).count();
        seconds.push_back(whole - spent(Phase::evaluate) - spent(Phase::checkpoint));  // these are between two steps
        sum += seconds.back();
        wait += spent(Phase::wait);
        samples += static_cast<double>(step->samples.value_or(0));
    }
    if (sum <= 0) {
        return std::nullopt;
    }
    tail.steps = static_cast<std::int64_t>(seconds.size());
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

std::vector<LiveRun> find_live_runs(std::span<const ProcessRates> processes) {
    std::vector<LiveRun> runs;
    for (const ProcessRates& process : processes) {
        if (auto run = run_of(process.pid)) {
            runs.push_back(std::move(*run));
        }
    }
    return runs;
}

}  // namespace stoker::cli
