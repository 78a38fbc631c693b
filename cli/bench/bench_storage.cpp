// stoker bench storage: how fast records are read from each storage format, without decoding or batching. Stoker reads
// in this process, each Python library in a child process. They take turns round by round, so that a change of the
// machine's speed affects both.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "cli/bench/other_load.h"
#include "cli/bench/python_peer.h"
#include "cli/bench/storage_data.h"
#include "cli/command.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/subprocess.h"
#include "cli/terminal/temp_folder.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/statistics.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/sampling/permutation.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kMinSeconds = 0.3;  // shortest measurement; bench/peers/storage/read.py uses the same

constexpr const char* kDescription =
    "Reads all records of each storage format in shuffled order, hashes every byte (XXH3) and compares the sums.\n"
    "Stoker: one process with --workers threads; each prefetches the next 64 records.\n"
    "With --peer Python libraries write the files, and Stoker and Python take turns reading them. Python: --workers "
    "processes, each with its own file handles. What Python reads and hashes:\n"
    "  folder              the whole file, by open and read; Stoker does the same\n"
    "  lmdb                the pickled value, by get with buffers; Stoker parses the pickle and hashes the image\n"
    "  hdf5                one row of a contiguous dataset, by h5py's read_direct\n"
    "  webdataset          the whole .npy member, by pread at a known offset; Stoker hashes the image in it\n"
    "  webdataset-library  whole shards in shuffled order through a shuffle buffer of 1,000, by the webdataset "
    "library\n"
    "  npy                 a copy of each row of np.load(mmap_mode=\"r\")\n"
    "  stk                 not compared";

// A storage format: its file, and the key of its readers' hash sum in StorageData::sums.
struct Row {
    const char* name;
    std::vector<const char*> files;  // the first that exists
    const char* sum;
    const char* peer;  // the reader in read.py; empty: none
    const char* peer_sum;
};

const std::vector<Row>& rows() {
    static const std::vector<Row> all = {
        {"folder", {"folder"}, "folder", "files", "folder"},
        {"lmdb", {"records.lmdb"}, "pixels", "lmdb", "lmdb"},
        {"hdf5", {"records.h5"}, "pixels", "h5py", "pixels"},
        {"webdataset", {"shards"}, "pixels", "webdataset-indexed", "webdataset"},
        {"webdataset-library", {"shards"}, "pixels", "webdataset", "webdataset"},
        {"npy", {"records.npy", "records.npz"}, "pixels", "npy", "pixels"},
        {"stk", {"records.stk"}, "pixels", "", ""},
    };
    return all;
}

std::string default_python() {
    constexpr const char* kVenv = ".venv/bin/python";
    return ::access(kVenv, X_OK) == 0 ? kVenv : "python3";
}

struct BenchStorageArguments {
    std::string data;
    std::int64_t count = 200'000;
    int workers = 2;
    int rounds = 3;
    bool peer = false;
    bool cold = false;
    bool json = false;
    std::vector<std::string> only;
    std::string python = default_python();
    std::string scripts = "bench/peers/storage";
};

void check_sum(const std::string& what, std::uint64_t got, std::uint64_t expected) {
    if (got != expected) {
        throw DataError({.path = what}, {.where = "bench storage",
                                         .expected = fmt::format("records whose hashes add up to {:016x}", expected),
                                         .got = fmt::format("{:016x}", got),
                                         .hint = "a byte differs from what was written"});
    }
}

struct StorageTiming {
    double seconds = 0;
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::uint64_t hash_sum = 0;  // sum of hash_bytes of all samples, independent of their order
};

constexpr std::size_t kBatch = 64;

// The indices that one thread reads in one epoch, in batches.
class Batches {
  public:
    Batches(const Permutation& order, int worker, int workers) : order_(order), next_(worker), step_(workers) {}

    std::span<const std::int64_t> next() {
        std::size_t count = 0;
        for (; count < kBatch && next_ < order_.size(); next_ += step_) {
            indices_[turn_][count++] = order_(next_);
        }
        turn_ = 1 - turn_;
        return {indices_[1 - turn_].data(), count};
    }

  private:
    const Permutation& order_;
    std::int64_t next_;
    std::int64_t step_;
    std::array<std::array<std::int64_t, kBatch>, 2> indices_{};  // the batch in use and the prefetched one
    std::size_t turn_ = 0;
};

void read_epoch(const Dataset& dataset, Batches batches, Sample& sample, StorageTiming& total) {
    const auto next_prefetched = [&] {
        const std::span<const std::int64_t> next = batches.next();
        if (!next.empty()) {
            dataset.prefetch(next);
        }
        return next;
    };
    for (std::span<const std::int64_t> batch = next_prefetched(); !batch.empty();) {
        const std::span<const std::int64_t> ahead = next_prefetched();
        for (const std::int64_t index : batch) {
            dataset.read(index, sample);
            total.hash_sum += hash_bytes(sample.bytes);
            total.bytes += static_cast<std::int64_t>(sample.bytes.size());
        }
        total.samples += static_cast<std::int64_t>(batch.size());
        batch = ahead;
    }
}

// `epochs` passes over all samples, each in another order. Thread w takes every workers-th position, in batches of 64:
// it prefetches a batch, reads it and hashes each byte. Each thread has its own Sample, like a loader worker.
StorageTiming time_reading(const Dataset& dataset, int workers, std::uint32_t first_epoch, std::uint32_t epochs) {
    const auto read_part = [&](int worker) {
        Sample sample;
        StorageTiming total;
        for (std::uint32_t epoch = first_epoch; epoch < first_epoch + epochs; ++epoch) {
            const Permutation order(dataset.size(), 1, epoch);
            read_epoch(dataset, Batches(order, worker, workers), sample, total);
        }
        return total;
    };
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::future<StorageTiming>> parts;  // not parallel_for, which may use fewer threads
    for (int worker = 0; worker < workers; ++worker) {
        parts.push_back(std::async(std::launch::async, read_part, worker));
    }
    StorageTiming all;
    for (std::future<StorageTiming>& future : parts) {
        const StorageTiming part = future.get();
        all.samples += part.samples;
        all.bytes += part.bytes;
        all.hash_sum += part.hash_sum;
    }
    all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return all;
}

struct Rate {
    double samples_per_second = 0;
    double bytes_per_second = 0;
};

class Bench {
  public:
    Bench(const BenchStorageArguments& options, const RecordShape& shape, std::int64_t records, const fs::path& folder)
        : options_(options), shape_(shape), records_(records), folder_(folder) {}

    Json run() {
        prepare();
        Json found = {{"bytes", shape_.bytes()}, {"records", records_}, {"rows", Json::array()}};
        for (const Row& row : rows()) {
            const auto& only = options_.only;
            if (only.empty() || std::ranges::find(only, row.name) != only.end()) {
                found["rows"].push_back(run_row(row));
            }
        }
        return found;
    }

  private:
    std::string script(const char* name) const {
        const fs::path path = fs::path(options_.scripts) / name;
        require_peer_script(path.string(), "--peer-scripts with bench/peers/storage");
        return path.string();
    }

    void prepare() {
        const char* maker = options_.peer ? "python" : "stoker";
        data_ = find_storage_data(folder_, maker, records_);
        if (data_.records > 0) {
            return;
        }
        print_stderr("writing {} records of {} bytes to {}\n", with_commas(static_cast<double>(records_)),
                     with_commas(static_cast<double>(shape_.bytes())), folder_.string());
        if (options_.peer) {
            std::vector<std::string> command = {options_.python,
                                                script("make.py"),
                                                folder_.string(),
                                                "--records",
                                                std::to_string(records_),
                                                "--shape",
                                                std::to_string(shape_.height),
                                                std::to_string(shape_.width)};
            if (shape_.channels != 1) {
                command.push_back(std::to_string(shape_.channels));
            }
            run_subprocess(command, catch_signals());
            check_interrupt();
            make_storage_stk(folder_);
        } else {
            make_storage_data(folder_, shape_, records_);
        }
        data_ = find_storage_data(folder_, maker, records_);
    }

    fs::path file_of(const Row& row) const {
        for (const char* name : row.files) {
            if (fs::exists(folder_ / name)) {
                return folder_ / name;
            }
        }
        throw IoError({.where = (folder_ / row.files.front()).string(),
                       .expected = "a file of the benchmark",
                       .got = "no such file"});
    }

    Rate measured(const Dataset& dataset, const Row& row, std::uint32_t first_epoch, std::uint32_t epochs) const {
        const StorageTiming read = time_reading(dataset, options_.workers, first_epoch, epochs);
        check_sum(file_of(row).string(), read.hash_sum, epochs * data_.sums.at(row.sum));
        return {static_cast<double>(read.samples) / read.seconds, static_cast<double>(read.bytes) / read.seconds};
    }

    Rate peer_round(const Row& row) const {
        std::vector<std::string> arguments = {row.peer,    folder_.string(),
                                              "--records", std::to_string(records_),
                                              "--workers", std::to_string(options_.workers)};
        if (options_.cold) {
            arguments.emplace_back("--cold");
        }
        const auto result = run_python_peer({script("read.py"), options_.python}, arguments, catch_signals());
        check_interrupt();
        check_sum(fmt::format("{} read by {}", file_of(row).string(), row.peer), result.at("sum").get<std::uint64_t>(),
                  result.at("passes").get<std::uint64_t>() * data_.sums.at(row.peer_sum));
        return {.samples_per_second = result.at("samples").get<double>() / result.at("seconds").get<double>()};
    }

    Json run_row(const Row& row) {
        const bool with_peer = options_.peer && *row.peer != '\0';
        const std::string path = file_of(row).string();
        std::unique_ptr<Dataset> dataset;
        std::uint32_t epochs = 1;
        std::uint32_t epoch = 0;
        if (!options_.cold) {
            dataset = open_dataset(path, Split::train);
            measured(*dataset, row, epoch++, 1);  // the first pass faults every page in; not timed
            const Rate warm = measured(*dataset, row, epoch++, 1);
            epochs = static_cast<std::uint32_t>(
                std::ceil(kMinSeconds * warm.samples_per_second / static_cast<double>(records_)));
        }
        std::vector<double> rates;
        std::vector<double> bytes;
        std::vector<double> peer_rates;
        for (int round = 0; round < options_.rounds; ++round) {
            check_interrupt();
            if (options_.cold) {
                dataset.reset();  // mapped pages cannot be dropped
                drop_from_cache(path);
                dataset = open_dataset(path, Split::train);
            }
            const Rate rate = measured(*dataset, row, epoch, epochs);
            epoch += epochs;
            rates.push_back(rate.samples_per_second);
            bytes.push_back(rate.bytes_per_second);
            if (with_peer) {
                if (options_.cold) {
                    dataset.reset();
                    drop_from_cache(path);
                }
                peer_rates.push_back(peer_round(row).samples_per_second);
            }
        }
        Json result = {{"name", row.name},
                       {"samples_per_second", median(rates)},
                       {"rounds", rates},
                       {"mb_per_second", median(bytes) / 1e6}};
        if (with_peer) {
            result["peer"] = row.peer;
            result["peer_samples_per_second"] = median(peer_rates);
            result["peer_rounds"] = peer_rates;
            result["ratio"] = median(rates) / median(peer_rates);
        }
        return result;
    }

    const BenchStorageArguments& options_;
    RecordShape shape_;
    std::int64_t records_;
    fs::path folder_;
    StorageData data_;
};

void report(const Json& size, bool cold) {
    print_stdout("{} records of {} bytes, {}\n\n", with_commas(size["records"]), with_commas(size["bytes"]),
                 cold ? "not in the page cache" : "in the page cache");
    print_stdout("{:<20} {:>12} {:>10} {:>15} {:>7}\n", "", "samples/s", "MB/s", "peer samples/s", "ratio");
    for (const Json& row : size["rows"]) {
        const bool with_peer = row.contains("ratio");
        print_stdout("{:<20} {:>12} {:>10} {:>15} {:>7}\n", row["name"].get<std::string>(),
                     with_commas(row["samples_per_second"]), with_commas(row["mb_per_second"]),
                     with_peer ? with_commas(row["peer_samples_per_second"]) : "",
                     with_peer ? fmt::format("{:.2f}", row["ratio"].get<double>()) : "");
    }
    print_stdout("\n");
}

int run(const BenchStorageArguments& options) {
    struct Size {
        RecordShape shape;
        std::int64_t share;  // of --count
    };
    constexpr Size kSizes[] = {{{28, 28, 1}, 1}, {{52, 52, 3}, 10}, {{192, 192, 3}, 100}};
    return run_interruptible([&](const std::atomic<int>& /*stop*/) {
        std::optional<TempFolder> temporary;
        const fs::path folder =
            options.data.empty() ? temporary.emplace("stoker-storage").path() : fs::path(options.data);
        Json document = {{"workers", options.workers}, {"cold", options.cold}, {"records", Json::array()}};
        const OtherLoad load;
        for (const auto& [shape, share] : kSizes) {
            const std::int64_t records = std::max<std::int64_t>(options.count / share, 16);
            Bench bench(options, shape, records, folder / std::to_string(shape.bytes()));
            document["records"].push_back(bench.run());
            if (!options.json) {
                report(document["records"].back(), options.cold);
            }
        }
        if (options.json) {
            print_document(document);
        }
        load.warn();
        return 0;
    });
}

}  // namespace

Command add_bench_storage(CLI::App& app) {
    auto options = std::make_shared<BenchStorageArguments>();
    app.add_option("--data", options->data,
                   "write the files here and keep them for later runs (default: a temporary folder)")
        ->type_name("DIR");
    add_number(
        app, "--count", options->count,
        "number of records of 784 bytes; a tenth as many of 8,112 bytes, a hundredth of 110,592 bytes, at least 16", 16,
        99'999'999);
    add_number(app, "--workers", options->workers, "threads of Stoker, processes of Python", 1, 1024);
    add_number(app, "--rounds", options->rounds, "number of measurements; medians are reported", 1, 1000);
    std::vector<std::string> names;
    for (const Row& row : rows()) {
        names.emplace_back(row.name);
    }
    app.add_option("--only", options->only, "only these formats")->type_name("ROW")->check(CLI::IsMember(names));
    app.add_flag("--cold", options->cold,
                 "drop the files from the page cache before each round (as root: the whole cache)");
    auto* peer = app.add_flag("--peer", options->peer, "measure Python libraries in turn with Stoker");
    app.add_option("--python", options->python, "the Python interpreter for --peer, with requirements.txt installed")
        ->capture_default_str()
        ->needs(peer);
    app.add_option("--peer-scripts", options->scripts, "the folder with the scripts for --peer")
        ->capture_default_str()
        ->needs(peer);
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the tables");
    app.footer(std::string(kDescription) +
               "\n\nExample:\n"
               "  stoker bench storage\n"
               "  stoker bench storage --peer --rounds 5 --json\n"
               "  stoker bench storage --peer --cold --only lmdb stk");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
