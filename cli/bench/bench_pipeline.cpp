// stoker bench pipeline: how fast training's loader turns files into batches. Decode, RandomResizedCrop, flip,
// normalise to float32 (N, C, H, W), shuffled, without training. Each round starts and ends while the consumer waits
// for a batch, so an external clock measures the same rate.

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/bench/other_load.h"
#include "cli/bench/python_peer.h"
#include "cli/command.h"
#include "cli/terminal/npy_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/subprocess.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/process_memory.h"
#include "stoker/base/statistics.h"
#include "stoker/base/url_secrets.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/cache/open_jpeg_index.h"
#include "stoker/pipeline/dct_crop_plan.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct BenchPipelineArguments {
    std::string data;
    int size = 224;              // side of the crop in pixels
    std::optional<int> workers;  // empty: auto
    std::int64_t batch = 64;
    int prefetch = 3;
    std::string decode_on = "cpu";  // cpu | device: only the loader's part, as with data.decode_on
    bool jpeg_index = false;
    int rounds = 3;
    std::int64_t batches = 100;
    std::string npy;
    bool json = false;
    bool serve = false;
    bool peers = false;
    std::string python = "python3";  // for --peers
    std::string script = "bench/peers/pipeline/compare.py";
    std::vector<std::string> only;  // empty: all peers
    std::string plot;               // empty: none
};

// ImageNet's augmentation, made of OpSpecs as a recipe's is, so that `stoker show` can draw the same samples.
std::vector<OpSpec> training_ops(const BenchPipelineArguments& options) {
    const std::string where = "bench pipeline";
    return {{.name = "random_resized_crop", .options = {{"size", static_cast<double>(options.size)}}, .where = where},
            {.name = "horizontal_flip", .options = {}, .where = where},
            {.name = "normalize", .options = {{"preset", "imagenet"}}, .where = where}};
}

Transform training_transform(const BenchPipelineArguments& options) {
    return Transform(training_ops(options), {});
}

ImageOptions image_options(const Dataset& dataset, const BenchPipelineArguments& options) {
    if (options.decode_on == "cpu") {
        return PixelImages{};
    }
    const DctCropPlan plan =
        plan_dct_crops(dataset, training_transform(options), training_ops(options), options.jpeg_index);
    if (plan.crop_bytes == 0) {
        throw InvalidArgument({.where = "--decode-on",
                               .expected = fmt::format("\"cpu\" for {}", dataset.path()),
                               .got = fmt::format("\"device\": {}", plan.why_not)});
    }
    return PackedImages{.crop_bytes = plan.crop_bytes};
}

// Training's Loader as an endless stream of batches.
class BenchLoader {
  public:
    // Creates the loader and takes its first batch. Throws what the loader throws.
    BenchLoader(const std::shared_ptr<const Dataset>& dataset, const BenchPipelineArguments& options)
        : prefetch_(options.prefetch),
          loader_(dataset, training_transform(options),
                  {.batch_size = options.batch,
                   .workers = options.workers.value_or(auto_workers(/*on_gpu=*/false)),
                   .prefetch = options.prefetch,
                   .drop_last = dataset->size() >= options.batch,  // full batches only, if there are enough samples
                   .images = image_options(*dataset, options),
                   .jpeg_index = options.jpeg_index ? open_jpeg_index(options.data) : nullptr}),
          first_(next()),
          first_seconds_(std::chrono::duration<double>(Clock::now() - start_).count()) {}

    int workers() const { return loader_.workers(); }
    const Batch& first() const { return *first_; }
    void release_first() { first_ = nullptr; }
    double first_seconds() const { return first_seconds_; }

    // Takes and releases `count` batches; returns the number of images. Throws Interrupted after a signal.
    std::int64_t consume(std::int64_t count) {
        std::int64_t images = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            check_interrupt();
            const std::shared_ptr<Batch> batch = next();
            images += batch->size();
            image_bytes_ += static_cast<std::int64_t>(batch->used_bytes(kImageField));
        }
        images_ += images;
        return images;
    }

    // The bytes of an image in its batch.
    double bytes_per_image() const { return static_cast<double>(image_bytes_) / static_cast<double>(images_); }

    // Consumes the batches that were prefetched, so that a timed round starts without a stock of finished batches.
    void drain() { consume(prefetch_ + 2); }

  private:
    std::shared_ptr<Batch> next() {
        std::shared_ptr<Batch> batch = loader_.next();
        return batch != nullptr ? batch : loader_.next();  // null only at the end of an epoch
    }

    int prefetch_;
    std::int64_t images_ = 0;
    std::int64_t image_bytes_ = 0;
    Clock::time_point start_ = Clock::now();
    Loader loader_;
    std::shared_ptr<Batch> first_;
    double first_seconds_;
};

// CPU time of this process so far: all threads, user and kernel mode.
double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Round {
    double images_per_second = 0;
    double cpu_seconds_per_1000 = 0;
};

Round run_round(BenchLoader& loader, std::int64_t batches) {
    const double cpu = cpu_seconds();
    const auto begin = Clock::now();
    const auto images = static_cast<double>(loader.consume(batches));
    return {.images_per_second = images / std::chrono::duration<double>(Clock::now() - begin).count(),
            .cpu_seconds_per_1000 = 1000 * (cpu_seconds() - cpu) / images};
}

std::vector<Round> run_rounds(BenchLoader& loader, const BenchPipelineArguments& options) {
    ProgressBar progress;
    std::vector<Round> rounds;
    for (int round = 0; round < options.rounds; ++round) {
        loader.drain();
        rounds.push_back(run_round(loader, options.batches));
        progress.update({.label = "measuring",
                         .done = round + 1,
                         .total = options.rounds,
                         .amount = static_cast<double>((round + 1) * options.batches * options.batch),
                         .unit = "images"});
    }
    return rounds;
}

// --serve, for an external clock: each line of standard input is a number of batches, which is one round. Prints when
// the data set is open with its size in bytes, when the first batch is ready, and when a round begins and ends.
int serve(const std::shared_ptr<const Dataset>& dataset, const BenchPipelineArguments& options) {
    const auto print_event = [](const std::string& event) {
        print_stdout("{}\n", event);
        std::fflush(stdout);
    };
    print_event(fmt::format("open {}", dataset->bytes()));
    BenchLoader loader(dataset, options);
    loader.release_first();
    print_event("first");
    for (std::int64_t batches = 0; std::cin >> batches;) {
        loader.drain();
        print_event("begin");
        loader.consume(batches);
        print_event("end");
    }
    return 0;
}

void report(const BenchPipelineArguments& options, const Dataset& dataset, const Json& document) {
    if (options.json) {
        print_document(document);
        return;
    }
    print_stdout("{}: {} ({}), batch {}, {}\n\n", shown_url(options.data), pluralize(dataset.size(), "sample"),
                 dataset.format(), options.batch, pluralize(document["workers"].get<int>(), "worker"));
    print_stdout("{:<10} {:>10} {:>20} {:>12} {:>12} {:>12}\n", "", "images/s", "CPU s/1,000 images", "first batch",
                 "peak memory", "on disk");
    const auto row = [](const std::string& name, double rate, double cpu, const std::string& rest) {
        print_stdout("{:<10} {:>10} {:>20.3f}{}\n", name, with_commas(rate), cpu, rest);
    };
    for (std::size_t i = 0; i < document["rounds"].size(); ++i) {
        row(fmt::format("round {}", i + 1), document["rounds"][i], document["cpu_rounds"][i], "");
    }
    row("median", document["images_per_second"], document["cpu_seconds_per_1000"],
        fmt::format(" {:>9.1f} ms {:>9.0f} MB {:>12}", document["first_batch_ms"].get<double>(),
                    document["peak_rss_mb"].get<double>(), byte_text(dataset.bytes())));
}

int measure(const std::shared_ptr<const Dataset>& dataset, const BenchPipelineArguments& options) {
    BenchLoader loader(dataset, options);
    const auto indices = loader.first().field(kIndexField).as<std::int64_t>();
    const std::vector<std::int64_t> first(indices.begin(), indices.end());
    if (!options.npy.empty()) {
        write_npy(options.npy, loader.first().field(kImageField));
    }
    loader.release_first();
    std::vector<double> rates;
    std::vector<double> cpu;
    const OtherLoad load;
    for (const Round& round : run_rounds(loader, options)) {
        rates.push_back(round.images_per_second);
        cpu.push_back(round.cpu_seconds_per_1000);
    }
    report(options, *dataset,
           {{"data", shown_url(options.data)},
            {"format", dataset->format()},
            {"samples", dataset->size()},
            {"size", options.size},
            {"batch", options.batch},
            {"batches", options.batches},
            {"decode_on", options.decode_on},
            {"jpeg_index", options.jpeg_index},
            {"bytes_per_image", loader.bytes_per_image()},
            {"workers", loader.workers()},
            {"images_per_second", median(rates)},
            {"rounds", rates},
            {"cpu_seconds_per_1000", median(cpu)},
            {"cpu_rounds", cpu},
            {"peak_rss_mb", peak_rss_mb()},
            {"first_batch_ms", 1000 * loader.first_seconds()},
            {"first_batch", first},
            {"bytes_on_disk", dataset->bytes()}});
    load.warn();
    return 0;
}

// --peers: replaces this process by the Python script that installs the peers' environments and measures them in turn
// with this program. exec keeps signals, terminal and exit status.
[[noreturn]] void compare_with_peers(const BenchPipelineArguments& options) {
    require_peer_script(options.script, "--peers-script");
    std::vector<std::string> command = {options.python, options.script,
                                        "--stoker",     program_path().string(),
                                        "--data",       options.data,
                                        "--size",       std::to_string(options.size),
                                        "--batch",      std::to_string(options.batch),
                                        "--rounds",     std::to_string(options.rounds),
                                        "--batches",    std::to_string(options.batches)};
    const auto add = [&](const std::string& option, const std::string& value) {
        command.insert(command.end(), {option, value});
    };
    if (options.workers) {
        add("--workers", std::to_string(*options.workers));
    }
    for (const std::string& name : options.only) {
        add("--peer", name);
    }
    if (!options.plot.empty()) {
        add("--plot", options.plot);
    }
    if (options.json) {
        command.emplace_back("--json");
    }
    exec_program(command);
    throw errno_error(options.python, "a Python interpreter for --peers", errno, "pass --python");
}

int run(const BenchPipelineArguments& options) {
    if (options.peers) {
        compare_with_peers(options);
    }
    return run_interruptible([&](const std::atomic<int>& /*stop*/) {
        const std::shared_ptr<const Dataset> dataset = open_dataset(options.data, Split::train);
        return options.serve ? serve(dataset, options) : measure(dataset, options);
    });
}

void add_peer_options(CLI::App& app, BenchPipelineArguments& options) {
    auto* peers = app.add_flag("--peers", options.peers,
                               "measure other systems in turn with Stoker, each in its own Python environment");
    app.add_option("--peer", options.only, "with --peers: only this system and Stoker; may be repeated")
        ->type_name("NAME")
        ->take_all()
        ->allow_extra_args(false)
        ->needs(peers);
    app.add_option("--plot", options.plot, "with --peers: draw the rates into this file")
        ->type_name("FILE.svg")
        ->needs(peers);
    app.add_option("--python", options.python, "the Python interpreter for --peers")->capture_default_str();
    app.add_option("--peers-script", options.script, "the script for --peers")->capture_default_str();
}

}  // namespace

Command add_bench_pipeline(CLI::App& app) {
    auto options = std::make_shared<BenchPipelineArguments>();
    app.add_option("--data", options->data, "a data set as in recipes")->required();
    add_number(app, "--size", options->size, "side of the crop in pixels", 1, 4096);
    app.add_option("--workers", options->workers, "loader threads, 0 for none (default: the usable cores)")
        ->type_name("W")
        ->check(CLI::Range(0, 1024));
    add_number(app, "--batch", options->batch, "samples per batch", 1, 65536);
    add_number(app, "--prefetch", options->prefetch, "batches prefetched beyond the one in use", 1, 1024);
    app.add_flag("--jpeg-index", options->jpeg_index,
                 "use and extend the index of the data's JPEGs, as training does (data.jpeg_index)");
    add_number(app, "--rounds", options->rounds, "number of measurements; medians are reported", 1, 1000);
    add_number(app, "--batches", options->batches, "batches per round", 1, 100'000'000);
    auto* decode_on = app.add_option("--decode-on", options->decode_on,
                                     "cpu, or device: only what data.decode_on = \"device\" leaves to the loader")
                          ->capture_default_str()
                          ->check(CLI::IsMember({"cpu", "device"}));
    auto* npy = app.add_option("--npy", options->npy, "write the first batch, float32 (N, C, H, W)")
                    ->type_name("FILE")
                    ->excludes(decode_on);
    auto* json = app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    app.add_flag("--serve", options->serve,
                 "for an external clock: run one round for each line of stdin, a number of batches")
        ->excludes(npy, json);
    add_peer_options(app, *options);
    example(app,
            "  stoker bench pipeline --data data/train\n"
            "  stoker bench pipeline --data data/train --workers 2 --rounds 5 --json\n"
            "  stoker bench pipeline --data data/train --peers --plot pipelines.svg");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
