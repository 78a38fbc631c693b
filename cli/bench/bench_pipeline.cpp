// Everything goes through the loader that training uses, epoch after epoch. Each round times batches between two
// moments at which the consumer is waiting for work, so a clock outside sees the same rate.
#include "cli/bench/bench_pipeline.h"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/bench/figures.h"
#include "cli/bench/pipeline_feed.h"
#include "cli/bench/pipeline_peers.h"
#include "cli/terminal/npy_output.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/open.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
    std::string data;
    FeedOptions feed;
    int rounds = 3;
    std::int64_t batches = 100;
    std::string npy;
    bool json = false;
    bool serve = false;
    bool peers = false;
    PeersProgram peers_program;
};

struct Round {
    double images_per_second = 0;
    double cpu_seconds_per_1000 = 0;
};

Round run_round(PipelineFeed& feed, std::int64_t batches) {
    const double cpu = cpu_seconds();
    const auto begin = Clock::now();
    const auto images = static_cast<double>(feed.take(batches));
    return {.images_per_second = images / std::chrono::duration<double>(Clock::now() - begin).count(),
            .cpu_seconds_per_1000 = 1000 * (cpu_seconds() - cpu) / images};
}

std::vector<Round> run_rounds(PipelineFeed& feed, const Options& options) {
    ProgressBar progress;
    std::vector<Round> rounds;
    for (int round = 0; round < options.rounds; ++round) {
        feed.drain();
        rounds.push_back(run_round(feed, options.batches));
        const double seconds =
            static_cast<double>((options.rounds - round - 1) * options.batches * options.feed.batch) /
            rounds.back().images_per_second;
        progress.update(fmt::format("round {}/{}", round + 1, options.rounds), round + 1, options.rounds,
                        rounds.back().images_per_second, "images", seconds);
    }
    return rounds;
}

// For a clock outside: each line of standard input names a number of batches; standard output says when the data
// set is open and how many bytes it has, when the first batch is there, and when a round begins and ends.
int serve(const std::shared_ptr<const Dataset>& dataset, const Options& options) {
    const auto say = [](const std::string& event) {
        std::puts(event.c_str());
        std::fflush(stdout);
    };
    say(fmt::format("open {}", dataset->bytes()));
    PipelineFeed feed(dataset, options.feed);
    feed.forget_first();
    say("first");
    for (std::int64_t batches = 0; std::cin >> batches;) {
        feed.drain();
        say("begin");
        feed.take(batches);
        say("end");
    }
    return 0;
}

void report(const Options& options, const Dataset& dataset, const Json& document) {
    if (options.json) {
        fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
        return;
    }
    fmt::print("{}: {} ({}), batch {}, {}\n\n", options.data, pluralize(dataset.size(), "sample"), dataset.format(),
               options.feed.batch, pluralize(document["workers"].get<int>(), "worker"));
    fmt::print("{:<10} {:>10} {:>20} {:>12} {:>12} {:>12}\n", "", "images/s", "CPU s/1,000 images", "first batch",
               "peak memory", "on disk");
    const auto row = [](const std::string& name, double rate, double cpu, const std::string& rest) {
        fmt::print("{:<10} {:>10} {:>20.3f}{}\n", name, with_commas(rate), cpu, rest);
    };
    for (std::size_t i = 0; i < document["rounds"].size(); ++i) {
        row(fmt::format("round {}", i + 1), document["rounds"][i], document["cpu_rounds"][i], "");
    }
    row("median", document["images_per_second"], document["cpu_seconds_per_1000"],
        fmt::format(" {:>9.1f} ms {:>9.0f} MB {:>12}", document["first_batch_ms"].get<double>(),
                    document["peak_rss_mb"].get<double>(), with_unit(dataset.bytes())));
}

int measure(const std::shared_ptr<const Dataset>& dataset, const Options& options) {
    PipelineFeed feed(dataset, options.feed);
    const auto indices = feed.first().field(kIndexField).as<std::int64_t>();
    const std::vector<std::int64_t> first(indices.begin(), indices.end());
    if (!options.npy.empty()) {
        write_npy(options.npy, feed.first().field(kImageField));
    }
    feed.forget_first();
    std::vector<double> rates;
    std::vector<double> cpu;
    for (const Round& round : run_rounds(feed, options)) {
        rates.push_back(round.images_per_second);
        cpu.push_back(round.cpu_seconds_per_1000);
    }
    report(options, *dataset,
           {{"data", options.data},
            {"format", dataset->format()},
            {"samples", dataset->size()},
            {"size", options.feed.size},
            {"batch", options.feed.batch},
            {"batches", options.batches},
            {"decode", options.feed.decode},
            {"workers", feed.workers()},
            {"images_per_second", median(rates)},
            {"rounds", rates},
            {"cpu_seconds_per_1000", median(cpu)},
            {"cpu_rounds", cpu},
            {"peak_rss_mb", peak_rss_mb()},
            {"first_batch_ms", 1000 * feed.first_seconds()},
            {"first_batch", first},
            {"bytes_on_disk", dataset->bytes()}});
    return 0;
}

int run(const Options& options) {
    if (options.peers) {
        compare_with_peers(options.peers_program, {.data = options.data,
                                                   .size = options.feed.size,
                                                   .workers = options.feed.workers,
                                                   .batch = options.feed.batch,
                                                   .rounds = options.rounds,
                                                   .batches = options.batches,
                                                   .json = options.json});
    }
    return until_interrupted([&](const std::atomic<int>& /*stop*/) {
        const std::shared_ptr<const Dataset> dataset = open_dataset(options.data, Split::train);
        return options.serve ? serve(dataset, options) : measure(dataset, options);
    });
}

void add_peer_options(CLI::App& app, Options& options) {
    auto* peers = app.add_flag("--peers", options.peers,
                               "measure other systems' pipelines in turn with ours, each in an environment of its own");
    app.add_option("--peer", options.peers_program.only, "with --peers: only these, and Stoker")
        ->type_name("NAME")
        ->take_all()
        ->allow_extra_args(false)
        ->needs(peers);
    app.add_option("--plot", options.peers_program.plot, "with --peers: write a picture of the rates")
        ->type_name("FILE.svg")
        ->needs(peers);
    app.add_option("--python", options.peers_program.python, "the interpreter that runs --peers")
        ->capture_default_str();
    app.add_option("--peers-script", options.peers_program.script, "the script of --peers")->capture_default_str();
}

}  // namespace

Command add_bench_pipeline(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--data", options->data, "a data set as recipes name them")->required();
    app.add_option("--size", options->feed.size, "pixels of a side of the crop")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    app.add_option("--workers", options->feed.workers, "loader threads, 0 for none (default: the cores there are)")
        ->type_name("W")
        ->check(CLI::Range(0, 1024));
    app.add_option("--batch", options->feed.batch, "samples of a batch")
        ->capture_default_str()
        ->check(CLI::Range(1, 65536));
    app.add_option("--prefetch", options->feed.prefetch, "batches in flight beyond the one in use")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    app.add_option("--rounds", options->rounds, "how often to measure; medians are reported")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_option("--batches", options->batches, "batches of a round")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000'000));
    app.add_option("--decode", options->feed.decode, "exact, or fast: smaller inverse transforms where pixels are many")
        ->capture_default_str()
        ->check(CLI::IsMember({"exact", "fast"}));
    auto* npy = app.add_option("--npy", options->npy, "write the first batch, float32 (N, C, H, W)")->type_name("FILE");
    auto* json = app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    app.add_flag("--serve", options->serve,
                 "be measured from outside: a line of input, a number of batches, is a round")
        ->excludes(npy, json);
    add_peer_options(app, *options);
    example(app,
            "  stoker bench pipeline --data data/train\n"
            "  stoker bench pipeline --data data/train --workers 2 --rounds 5 --json\n"
            "  stoker bench pipeline --data data/train --peers --plot pipelines.svg");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
