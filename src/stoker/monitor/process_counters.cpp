#include "stoker/monitor/process_counters.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

void skip_words(std::string_view& text, int count) {
    for (int i = 0; i < count; ++i) {
        take_word(text);
    }
}

std::optional<ProcessCounters> read_process(const std::string& folder, std::int64_t page_bytes) {
    const auto stat = read_counter_file(folder + "/stat");
    auto process = stat ? parse_process(*stat, page_bytes) : std::nullopt;
    if (const auto io = process ? read_counter_file(folder + "/io") : std::nullopt) {
        process->read_bytes = named_number(*io, "read_bytes:");
    }
    return process;
}

}  // namespace

// "12 (a name) S ppid ...": the name may hold blanks and parentheses, so the last ')' ends it.
std::optional<ProcessCounters> parse_process(std::string_view stat, std::int64_t page_bytes) {
    const std::size_t open = stat.find('(');
    const std::size_t close = stat.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
        return std::nullopt;
    }
    std::string_view before = stat.substr(0, open);
    std::string_view after = stat.substr(close + 1);
    const auto pid = take_count(before);
    const std::string_view state = take_word(after);
    skip_words(after, 10);  // ppid to the major faults of children
    const auto user = take_count(after);
    const auto system = take_count(after);
    skip_words(after, 4);  // the children's times, priority, nice
    const auto threads = take_count(after);
    skip_words(after, 1);
    const auto start = take_count(after);
    skip_words(after, 1);  // virtual memory
    const auto pages = take_count(after);
    if (!pid || state.size() != 1 || !user || !system || !threads || !start || !pages) {
        return std::nullopt;
    }
    return ProcessCounters{.pid = *pid,
                           .name = std::string(stat.substr(open + 1, close - open - 1)),
                           .state = state.front(),
                           .threads = *threads,
                           .cpu_ticks = *user + *system,
                           .start_ticks = *start,
                           .rss_bytes = *pages * page_bytes};
}

std::vector<ProcessCounters> read_processes(const std::string& root) {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    std::vector<ProcessCounters> processes;
    std::error_code unreadable;  // then there are none
    for (fs::directory_iterator entry(root + "/proc", unreadable), end; entry != end; entry.increment(unreadable)) {
        const std::string name = entry->path().filename();
        if (!parse_number<std::int64_t>(name)) {
            continue;
        }
        if (auto process = read_process(entry->path(), page)) {
            processes.push_back(std::move(*process));
        }
    }
    return processes;
}

std::vector<std::string> read_command(std::int64_t pid, const std::string& root) {
    std::vector<std::string> words;
    const auto text = read_counter_file(root + "/proc/" + std::to_string(pid) + "/cmdline");
    std::string_view rest = text ? std::string_view(*text) : "";
    while (!rest.empty()) {  // a 0 ends each word
        const std::size_t end = rest.find('\0');
        words.emplace_back(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return words;
}

std::vector<ProcessRates> process_rates(std::span<const ProcessCounters> before, std::span<const ProcessCounters> after,
                                        double seconds, double ticks_per_second) {
    std::map<std::pair<std::int64_t, std::int64_t>, const ProcessCounters*> earlier;
    for (const ProcessCounters& process : before) {
        earlier[{process.pid, process.start_ticks}] = &process;
    }
    std::vector<ProcessRates> rates;
    for (const ProcessCounters& now : after) {
        const auto found = earlier.find({now.pid, now.start_ticks});
        if (found == earlier.end()) {
            continue;
        }
        const auto read = difference(found->second->read_bytes, now.read_bytes);
        const double ticks = difference(found->second->cpu_ticks, now.cpu_ticks).value_or(0);
        rates.push_back({.pid = now.pid,
                         .name = now.name,
                         .state = now.state,
                         .threads = now.threads,
                         .cores = ticks / ticks_per_second / seconds,
                         .rss_bytes = now.rss_bytes,
                         .read_bytes = read ? std::optional(*read / seconds) : std::nullopt});
    }
    return rates;
}

}  // namespace stoker
