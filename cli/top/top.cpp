// stoker top: the host, its GPUs and the runs on it, on one screen.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "cli/top/full_screen.h"
#include "cli/top/top_view.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShortest = 0.1;  // seconds between two readings; the kernel counts in hundredths
constexpr double kLongest = 60;

struct TopArguments {
    double interval = 2;
    bool once = false;
    bool json = false;
};

// The settings that keys change.
struct Controls {
    double interval = 2;
    ProcessSort sort = ProcessSort::cpu;
    bool paused = false;
    bool quit = false;

    void press(int key) {
        switch (key) {
            case 'q':
            case 'Q':
                quit = true;
                break;
            case 'p':
            case ' ':
                paused = !paused;
                break;
            case 's':
                sort = sort == ProcessSort::cpu      ? ProcessSort::memory
                       : sort == ProcessSort::memory ? ProcessSort::read
                                                     : ProcessSort::cpu;
                break;
            case '+':
            case '=':  // the same key without shift
                interval = std::min(interval * 2, kLongest);
                break;
            case '-':
                interval = std::max(interval / 2, kShortest);
                break;
            default:
                break;
        }
    }
};

ScreenLine first_line(const TopView& view) {
    ScreenLine line;
    line.add("stoker top", Tone::title).add("  " + for_terminal(view.host_name, 40), Tone::plain, 1);
    line.add(fmt::format("  {:%H:%M:%S}", fmt::localtime(std::time(nullptr))), Tone::plain, 2);
    if (view.container) {
        line.add("  in a container", Tone::dim, 3);
        line.add(": processes, network and limits are its own; cores, disks and memory are the host's", Tone::dim, 4);
    }
    return line;
}

ScreenLine last_line(const Controls& controls) {
    ScreenLine line;
    line.add("q", Tone::title).add(" quit  ", Tone::dim);
    line.add("p", Tone::title).add(controls.paused ? " continue" : " pause", controls.paused ? Tone::warn : Tone::dim);
    line.add("  s", Tone::title, 1).add(fmt::format(" sort: {}", sort_name(controls.sort)), Tone::dim, 1);
    line.add("  + -", Tone::title, 2).add(fmt::format(" every {:.3g} s", controls.interval), Tone::dim, 2);
    return line;
}

std::vector<ScreenLine> all_lines(const TopView& view, const TopLayout& layout) {
    std::vector<ScreenLine> lines = {first_line(view)};
    lines.push_back({.pieces = {}, .rank = kBlankLine});
    std::ranges::move(host_lines(view, layout), std::back_inserter(lines));
    std::ranges::move(activity_lines(view), std::back_inserter(lines));
    return lines;
}

// Waits, unless a signal comes.
void wait(double seconds) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    while (Clock::now() < end) {
        check_interrupt();
        std::this_thread::sleep_until(std::min(end, Clock::now() + std::chrono::milliseconds(50)));
    }
}

int print_once(const TopArguments& options) {
    constexpr std::size_t kProcesses = 10;
    constexpr int kColumns = 120;  // if stdout is not a terminal
    TopSource source;
    wait(options.interval);
    const TopView view = source.next(ProcessSort::cpu, kProcesses);
    if (options.json) {
        print_document(top_json(view));
        return 0;
    }
    const int columns = terminal_columns(STDOUT_FILENO).value_or(kColumns);
    for (const ScreenLine& line : fitted(all_lines(view, {.columns = columns, .blocks = shows_blocks()}), columns, 0)) {
        print_stdout("{}\n", plain_text(line));
    }
    return 0;
}

void draw(FullScreen& screen, const TopView& view, const Controls& controls) {
    const TopLayout layout{.columns = screen.columns(), .blocks = shows_blocks()};
    auto lines = fitted(all_lines(view, layout), screen.columns(), std::max(screen.rows() - 1, 1));
    lines.resize(static_cast<std::size_t>(std::max(screen.rows() - 1, 1)));  // the keys are at the bottom
    const auto keys = fitted({last_line(controls)}, screen.columns(), 1);
    lines.insert(lines.end(), keys.begin(), keys.end());
    screen.draw(lines);
}

int run_live(const TopArguments& options) {
    constexpr double kFirst = 0.5;  // seconds: the first screen should not let one wait
    FullScreen screen;
    TopSource source;
    Controls controls{.interval = options.interval};
    wait(std::min(kFirst, controls.interval));
    const auto rows = [&] { return static_cast<std::size_t>(std::max(screen.rows(), 1)); };
    TopView view = source.next(controls.sort, rows());
    auto read_at = Clock::now();
    while (!controls.quit) {
        check_interrupt();
        draw(screen, view, controls);
        const double since = std::chrono::duration<double>(Clock::now() - read_at).count();
        const double left = controls.interval - since;
        if (const auto key = screen.key(controls.paused ? kLongest : left)) {
            const ProcessSort before = controls.sort;
            controls.press(*key);
            if (controls.sort != before) {  // of the same reading: one taken at once would be over too short a time
                sort_processes(view, controls.sort, rows());
            }
            continue;
        }
        if (controls.paused) {
            continue;
        }
        view = source.next(controls.sort, rows());
        read_at = Clock::now();
    }
    return 0;
}

}  // namespace

Command add_top(CLI::App& app) {
    auto options = std::make_shared<TopArguments>();
    add_number(app, "--interval", options->interval, "seconds between two readings", kShortest, kLongest);
    auto* once = app.add_flag("--once", options->once, "print one reading over the interval as text, and end");
    app.add_flag("--json", options->json, "with --once: one JSON document on stdout instead of the text")->needs(once);
    example(app,
            "  stoker top\n"
            "  stoker top --once --json --interval 1");
    return [options] {
        return run_interruptible([&](const std::atomic<int>& /*stop*/) {
            return options->once ? print_once(*options) : run_live(*options);
        });
    };
}

}  // namespace stoker::cli
