// Many epochs over small data sets, to see that memory and descriptors stop growing: resident memory and open
// descriptors every ten epochs, then the slope of the memory after a warm-up. bench/soak.py makes the data and runs
// this.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"

namespace {

using namespace stoker;

constexpr std::int64_t kWarmUp = 50;      // epochs, or half of them if there are fewer than twice as many
constexpr std::int64_t kEvery = 10;       // epochs
constexpr double kMostGrowth = 1.0;       // MB in 100 epochs
constexpr std::int64_t kFewest = 2 * 50;  // epochs, below which a slope says nothing

struct Options {
    std::vector<std::string> data;
    std::int64_t epochs = 200;
    int workers = 8;
};

Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string word = arguments[i];
        const auto number = [&] { return i + 1 < count ? std::atoi(arguments[++i]) : 0; };
        if (word == "--epochs") {
            options.epochs = number();
        } else if (word == "--workers") {
            options.workers = number();
        } else {
            options.data.push_back(word);
        }
    }
    return options;
}

struct Use {
    std::int64_t epoch = 0;
    double megabytes = 0;  // resident
    std::int64_t descriptors = 0;
};

// The fewest of several counts: workers that read ahead have a file open now and then.
std::int64_t open_descriptors() {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const std::filesystem::directory_iterator open("/proc/self/fd");
        fewest = std::min<std::int64_t>(fewest, std::distance(begin(open), end(open)));
    }
    return fewest;
}

Use use_after(std::int64_t epoch) {
    std::int64_t pages = 0;
    std::int64_t resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return {.epoch = epoch,
            .megabytes = static_cast<double>(resident * ::sysconf(_SC_PAGESIZE)) / 1e6,
            .descriptors = open_descriptors()};
}

// Megabytes in 100 epochs, of the line that fits best.
double slope(const std::vector<Use>& uses) {
    double epochs = 0;
    double megabytes = 0;
    for (const Use& use : uses) {
        epochs += static_cast<double>(use.epoch) / static_cast<double>(uses.size());
        megabytes += use.megabytes / static_cast<double>(uses.size());
    }
    double products = 0;
    double squares = 0;
    for (const Use& use : uses) {
        const double away = static_cast<double>(use.epoch) - epochs;
        products += away * (use.megabytes - megabytes);
        squares += away * away;
    }
    return 100 * products / squares;
}

std::vector<Use> run_epochs(const std::string& data, const Options& options) {
    const Transform transform(
        std::vector<OpSpec>{{.name = "random_resized_crop", .options = {{"size", 64.0}}, .where = "soak"},
                            {.name = "horizontal_flip", .options = {}, .where = "soak"},
                            {.name = "normalize", .options = {{"preset", "imagenet"}}, .where = "soak"}});
    Loader loader(open_dataset(data, Split::train), transform, {.batch_size = 16, .workers = options.workers});
    std::vector<Use> uses;
    for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
        while (loader.next() != nullptr) {
        }
        if (epoch % kEvery == 0) {
            uses.push_back(use_after(epoch));
            fmt::print("{:>6} {:>10.1f} MB {:>6} descriptors\n", epoch, uses.back().megabytes, uses.back().descriptors);
            std::fflush(stdout);
        }
    }
    return uses;
}

bool is_steady(const std::string& data, const Options& options) {
    fmt::print("{}: {} epochs, {} workers\n", data, options.epochs, options.workers);
    std::vector<Use> uses = run_epochs(data, options);
    const std::int64_t warm = std::min(kWarmUp, options.epochs / 2);
    std::erase_if(uses, [&](const Use& use) { return use.epoch < warm; });
    if (uses.size() < 2) {
        fmt::print("  too few epochs to tell\n");
        return false;
    }
    const std::int64_t opened = uses.back().descriptors - uses.front().descriptors;
    bool steady = opened <= 0;
    fmt::print("  descriptors {:+}\n", opened);
    if (options.epochs >= kFewest) {
        const double growth = slope(uses);
        fmt::print("  memory {:+.2f} MB in 100 epochs, at most {:.0f} allowed\n", growth, kMostGrowth);
        steady = steady && growth < kMostGrowth;
    }
    return steady;
}

}  // namespace

int main(int count, char** arguments) {
    const Options options = parse(count, arguments);
    bool steady = !options.data.empty();
    try {
        for (const std::string& data : options.data) {
            steady = is_steady(data, options) && steady;
        }
    } catch (const Error& error) {
        fmt::print(stderr, "soak: {}\n", error.what());
        return 1;
    }
    fmt::print("{}\n", steady ? "steady" : "FAILED");
    return steady ? 0 : 1;
}
