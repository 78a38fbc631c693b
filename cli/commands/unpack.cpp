// stoker unpack: a folder of image files again, from any data set that can be read.
#include "stoker/pack/unpack.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/staged_output.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/open.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string data;
    std::string target;
    int workers = 0;
    bool test = false;
    bool json = false;
};

void print_result(const Options& options, const UnpackResult& result, bool packed, double seconds) {
    if (options.json) {
        const nlohmann::ordered_json json = {{"path", options.target},
                                             {"samples", result.samples},
                                             {"bytes", result.bytes},
                                             {"original_files", result.original},
                                             {"same_pixels", result.same_pixels},
                                             {"seconds", seconds}};
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    const auto commas = [](std::int64_t number) { return with_commas(static_cast<double>(number)); };
    fmt::print("{}: {}, {}, in {:.1f} s\n", options.target, pluralize(result.samples, "image"), with_unit(result.bytes),
               seconds);
    fmt::print("  {} byte for byte the files {}\n", commas(result.original),
               packed ? "that were packed" : "of " + options.data);
    fmt::print("  {} with the same pixels in another file\n", commas(result.same_pixels));
}

int run(const Options& options) {
    if (options.test && !has_splits(options.data)) {
        throw InvalidArgument({.where = "--test",
                               .expected = "a data set with a test split, such as a folder of IDX files",
                               .got = options.data});
    }
    const auto dataset = open_dataset(options.data, options.test ? Split::test : Split::train);
    Staging staging(options.target);
    catch_signals();
    ProgressBar progress;
    const auto start = Clock::now();
    const auto seconds = [&] { return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9); };
    const UnpackOptions wanted{
        .workers = options.workers > 0 ? options.workers : read_core_budget().usable,
        .progress = [&](std::int64_t done, std::int64_t bytes) {
            check_interrupt();
            progress.update("unpack", done, dataset->size(), static_cast<double>(bytes) / seconds() / 1e6, "MB",
                            seconds() * static_cast<double>(dataset->size() - done) / static_cast<double>(done));
        }};
    try {
        const UnpackResult result = unpack(*dataset, staging.folder(), wanted);
        check_interrupt();
        staging.commit();
        progress.clear();
        print_result(options, result, dataset->format() == "stk", seconds());
        return 0;
    } catch (const Interrupted& stop) {
        progress.clear();
        fmt::print(stderr, "stoker: stopped by signal {}; nothing was kept\n", stop.signal);
        return 128 + stop.signal;
    }
}

}  // namespace

Command add_unpack(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("source", options->data, "a data set as recipes name them, such as NAME.stk")->required();
    app.add_option("target", options->target, "the folder to make; one with files in it is refused")->required();
    app.add_option("--workers", options->workers, "threads (default: the cores that may be used)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--test", options->test, "the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the summary");
    example(app, "  stoker unpack train.stk data/train");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
