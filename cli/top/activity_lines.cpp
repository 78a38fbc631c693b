// The lower half of the screen, in tables: disks, network, the runs of Stoker, the processes.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "cli/top/top_view.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

using Align = ScreenTable::Align;

constexpr int kName = 14;     // columns of a name
constexpr int kNetwork = 10;  // ranks
constexpr int kFurtherRow = 20;

std::string megabytes(double bytes) {
    return fmt::format("{:.1f}", 1e-6 * bytes);
}

std::string or_dash(const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string name_cell(const std::string& name) {
    return "  " + for_terminal(name, kName - 3);
}

// The `most` busiest ones, in the order of `items`, so that rows keep their places. `busy` says how busy one is.
template <typename Item, typename Busy>
std::vector<Item> busiest(std::vector<Item> items, std::size_t most, Busy busy) {
    while (items.size() > most) {
        items.erase(std::ranges::min_element(items, {}, busy));
    }
    return items;
}

void add_disks(const TopView& view, std::vector<ScreenLine>& lines) {
    const ScreenTable table({{"Disk", kName, Align::left, 0},
                             {"read MB/s", 10, Align::right, 1},
                             {"req/s", 8, Align::right, 4},
                             {"ms", 7, Align::right, 3},
                             {"write MB/s", 12, Align::right, 2},
                             {"req/s", 8, Align::right, 4},
                             {"ms", 7, Align::right, 3},
                             {"busy", 8, Align::right, 0}});
    const auto disks = busiest(view.host.disks, 6, &DiskRates::busy);
    for (const DiskRates& disk : disks) {
        constexpr double kFull = 0.9;
        if (&disk == &disks.front()) {
            lines.push_back(table.header());
        }
        lines.push_back(
            table.row({{name_cell(disk.name)},
                       {megabytes(disk.read_bytes)},
                       {fmt::format("{:.0f}", disk.reads)},
                       {or_dash(disk.read_ms, 1)},
                       {megabytes(disk.write_bytes)},
                       {fmt::format("{:.0f}", disk.writes)},
                       {or_dash(disk.write_ms, 1)},
                       {fmt::format("{:.0f} %", 100 * disk.busy), disk.busy >= kFull ? Tone::warn : Tone::plain}},
                      &disk == &disks.front() ? 0 : kFurtherRow));
    }
}

void add_network(const TopView& view, std::vector<ScreenLine>& lines) {
    const ScreenTable table({{"Network", kName, Align::left, 0},
                             {"in MB/s", 10, Align::right, 0},
                             {"out MB/s", 12, Align::right, 1},
                             {"lost packets/s", 16, Align::right, 2}});
    const auto traffic = [](const NetworkRates& rates) { return rates.received_bytes + rates.sent_bytes; };
    const auto interfaces = busiest(view.host.network, 4, traffic);
    if (!interfaces.empty()) {
        lines.push_back(table.header(kNetwork));
    }
    for (const NetworkRates& rates : interfaces) {
        lines.push_back(table.row({{name_cell(rates.name)},
                                   {megabytes(rates.received_bytes)},
                                   {megabytes(rates.sent_bytes)},
                                   {fmt::format("{:.0f}", rates.lost), rates.lost > 0 ? Tone::warn : Tone::plain}},
                                  &rates == &interfaces.front() ? kNetwork : kFurtherRow));
    }
}

// "now", "12 s ago", "5 min ago".
std::string ago(double seconds) {
    if (seconds < 2) {
        return "now";
    }
    return seconds < 100    ? fmt::format("{:.0f} s ago", seconds)
           : seconds < 6000 ? fmt::format("{:.0f} min ago", seconds / 60)
                            : fmt::format("{:.0f} h ago", seconds / 3600);
}

std::vector<ScreenTable::Cell> run_cells(const LiveRun& run) {
    const std::string name = std::filesystem::path(run.path).filename().string();
    std::vector<ScreenTable::Cell> cells = {{name_cell(name)}};
    if (run.tail) {
        const RunTail& tail = *run.tail;
        constexpr double kModerate = 0.05;
        constexpr double kInputBound = 0.20;
        cells.push_back({with_commas(static_cast<double>(tail.step))});
        cells.push_back({fmt::format("{:.2f}", 1e3 * tail.step_seconds)});
        cells.push_back({fmt::format("{:.0f} %", 100 * tail.wait_share), tail.wait_share >= kInputBound ? Tone::bad
                                                                         : tail.wait_share >= kModerate ? Tone::warn
                                                                                                        : Tone::good});
        cells.push_back({tail.images_per_second ? with_commas(*tail.images_per_second) : "-"});
        cells.push_back({or_dash(tail.ready_batches, 1)});
        cells.push_back({tail.loss ? number_text(*tail.loss) : "-"});
    } else {
        cells.insert(cells.end(), 6, {"-", Tone::dim});
    }
    cells.push_back({!run.tail ? "no steps yet" : run.written_seconds ? ago(*run.written_seconds) : "-", Tone::dim});
    return cells;
}

void add_runs(const TopView& view, std::vector<ScreenLine>& lines) {
    const ScreenTable table({{"Run", kName, Align::left, 0},
                             {"step", 10, Align::right, 4},
                             {"ms a step", 11, Align::right, 2},
                             {"wait", 7, Align::right, 0},
                             {"images/s", 10, Align::right, 1},
                             {"ready", 7, Align::right, 6},
                             {"loss", 10, Align::right, 5},
                             {"written", 14, Align::right, 3}});
    if (view.runs.empty()) {
        lines.push_back(
            {.pieces = {{"Run     ", Tone::title}, {"no training run of this user", Tone::dim}}, .rank = 9});
        return;
    }
    lines.push_back(table.header());
    for (const LiveRun& run : view.runs) {
        lines.push_back(table.row(run_cells(run), &run == &view.runs.front() ? 0 : 8));
    }
}

void add_processes(const TopView& view, std::vector<ScreenLine>& lines) {
    const ScreenTable table({{"Process", kName - 4, Align::left, 0},
                             {"cores", 7, Align::right, 0},
                             {"memory GiB", 12, Align::right, 2},
                             {"read MB/s", 11, Align::right, 3},
                             {"threads", 9, Align::right, 4},
                             {"  command", 12, Align::left, 1, true}});
    constexpr int kFirst = 10;  // the others give way to the blank lines
    lines.push_back(table.header());
    int rank = 1;
    for (const TopProcess& process : view.processes) {
        const ProcessRates& rates = process.rates;
        const auto read = rates.read_bytes ? megabytes(*rates.read_bytes) : "-";
        lines.push_back(
            table.row({{fmt::format("  {}", rates.pid)},
                       {fmt::format("{:.2f}", rates.cores)},
                       {fmt::format("{:.2f}", static_cast<double>(rates.rss_bytes) / (1 << 30))},
                       {read, rates.read_bytes ? Tone::plain : Tone::dim},
                       {fmt::format("{}", rates.threads)},
                       {"  " + for_terminal(process.command, 400), rates.state == 'D' ? Tone::warn : Tone::plain}},
                      rank <= 3        ? rank
                      : rank <= kFirst ? 50 + rank
                                       : 2 * kBlankLine + rank));
        ++rank;
    }
}

}  // namespace

std::vector<ScreenLine> activity_lines(const TopView& view) {
    std::vector<ScreenLine> lines;
    for (const auto& add : {add_disks, add_network, add_runs, add_processes}) {
        lines.push_back({.pieces = {}, .rank = kBlankLine});
        add(view, lines);
    }
    return lines;
}

}  // namespace stoker::cli
