// stoker unpack: writes any data set that Stoker reads as a folder of image files.
#include "stoker/pack/unpack.h"

#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/commands/staged_folder.h"
#include "cli/commands/unread_fields.h"
#include "cli/terminal/advice.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct UnpackArguments {
    std::string data;
    std::string target;
    FieldNames fields;
    std::int64_t context = 0;
    int workers = 0;
    bool test = false;
    bool json = false;
};

void print_result(const UnpackArguments& options, const UnpackResult& result, const Dataset& dataset,
                  const std::vector<Field>& left_out, double seconds) {
    if (options.json) {
        print_document({{"path", options.target},
                        {"samples", result.samples},
                        {"bytes", result.bytes},
                        {"original_files", result.original},
                        {"same_pixels", result.same_pixels},
                        {"left_out", names_of(left_out)},
                        {"seconds", seconds}});
        return;
    }
    const auto commas = [](std::int64_t number) { return with_commas(static_cast<double>(number)); };
    print_stdout("{}: {}, {}, in {:.1f} s\n", options.target,
                 pluralize(result.samples, dataset.has_image() ? "image" : "sample"), byte_text(result.bytes), seconds);
    if (!left_out.empty()) {
        print_stdout("  left out: {}\n", left_out_text(left_out));
    }
    if (!dataset.has_image()) {
        return;
    }
    print_stdout("  {} byte for byte as {}\n", commas(result.original),
                 dataset.format() == "stk" ? "before packing" : "in " + shown_url(options.data));
    print_stdout("  {} with the same pixels, encoded again\n", commas(result.same_pixels));
}

int run(const UnpackArguments& options) {
    const auto dataset = open_split(options.data, options.test, options.fields, options.context);
    require_outside_data(options.target, {options.data});
    print_advice(*dataset, dataset->advice());
    const std::vector<Field> left_out = unread_fields(*dataset, options.fields);
    StagedFolder staging(options.target);
    const auto start = Clock::now();
    return run_interruptible(
        [&](const std::atomic<int>& /*stop*/) {
            ProgressBar bar;
            const UnpackOptions unpack_options{.workers = options.workers > 0 ? options.workers : cpu_cores().usable,
                                               .progress = [&](std::int64_t done, std::int64_t bytes) {
                                                   check_interrupt();
                                                   bar.update({.label = "unpack",
                                                               .done = done,
                                                               .total = dataset->size(),
                                                               .amount = static_cast<double>(bytes) / 1e6,
                                                               .unit = "MB"});
                                               }};
            const UnpackResult result = unpack(*dataset, staging.path(), unpack_options);
            check_interrupt();
            staging.commit();
            bar.clear();
            print_result(options, result, *dataset, left_out,
                         std::chrono::duration<double>(Clock::now() - start).count());
            return 0;
        },
        "nothing was kept");
}

}  // namespace

Command add_unpack(CLI::App& app) {
    auto options = std::make_shared<UnpackArguments>();
    app.add_option("source", options->data, "a data set as in recipes, such as NAME.stk")->required();
    app.add_option("target", options->target, "the folder to create; one with files in it is refused")->required();
    add_field_options(app, options->fields);
    add_further_fields_option(app, options->fields);
    add_context_option(app, options->context);
    add_memory_option(app);
    app.add_option("--workers", options->workers, "threads (default: the usable cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--test", options->test, "use the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the summary");
    example(app,
            "  stoker unpack train.stk data/train\n"
            "  stoker unpack train.stk data/train --field mask:mask --field score");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
