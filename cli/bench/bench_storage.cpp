// Bytes only: no decoding, no batches. Ours runs in this process, the Python libraries in a child for each round, which
// takes turns with ours so that a machine that changes speed changes it for both.
#include "cli/bench/bench_storage.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/bench/figures.h"
#include "cli/bench/storage_data.h"
#include "cli/bench/storage_read.h"
#include "cli/terminal/child.h"
#include "cli/terminal/interrupt.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/open.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kEnough = 0.3;  // seconds that a measurement shall last at least; the Python side has the same

constexpr const char* kSides =
    "How fast each kind of storage gives out its records' bytes, shuffled, every byte hashed (XXH3) and the sums "
    "compared.\n"
    "Stoker: one process, --workers threads, Source::read after Source::prefetch of the next 64.\n"
    "With --peer the files are made by the formats' Python libraries, and read in turn by Stoker and by Python: "
    "--workers processes, each with handles of its own. They hash what they get:\n"
    "  folder              open, read: the whole file; ours too\n"
    "  lmdb                get with buffers: the pickled value; ours reads the pickle and hashes the image\n"
    "  hdf5                h5py, read_direct of a row of a contiguous dataset\n"
    "  webdataset          pread of a .npy member at a known place: the whole member; ours hashes the image\n"
    "  webdataset-library  the library: whole shards in shuffled order, a shuffle buffer of 1,000\n"
    "  npy                 np.load(mmap_mode=\"r\"), a copy of each row\n"
    "  stk                 no peer";

// One kind of storage: which file, and what the sum of its reader's hashes is called in StorageData.
struct Row {
    const char* name;
    std::vector<const char*> files;  // whichever is there
    const char* sum;
    const char* peer;  // the reader of read.py; empty: none
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
    constexpr const char* kOwn = ".venv/bin/python";
    return ::access(kOwn, X_OK) == 0 ? kOwn : "python3";
}

struct Options {
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

// A folder that goes with everything in it, unless it is the user's.
class Workplace {
  public:
    explicit Workplace(const std::string& given) : kept_(!given.empty()), folder_(given) {
        if (!kept_) {
            std::string name = (fs::temp_directory_path() / "stoker-storage-XXXXXX").string();
            if (::mkdtemp(name.data()) == nullptr) {
                throw IoError({.where = name, .expected = "a temporary folder", .got = errno_text()});
            }
            folder_ = name;
        }
    }
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    ~Workplace() {
        if (!kept_) {
            std::error_code ignored;  // what cannot be removed stays where temporary files are
            fs::remove_all(folder_, ignored);
        }
    }
    const fs::path& folder() const { return folder_; }

  private:
    bool kept_;
    fs::path folder_;
};

void check_sum(const std::string& what, std::uint64_t got, std::uint64_t expected) {
    if (got != expected) {
        throw DataError({.path = what}, {.where = "bench storage",
                                         .expected = fmt::format("records whose hashes add up to {:016x}", expected),
                                         .got = fmt::format("{:016x}", got),
                                         .hint = "some byte is not what was written"});
    }
}

// What one side did in one round.
struct Rate {
    double samples_per_second = 0;
    double bytes_per_second = 0;
};

class Bench {
  public:
    Bench(const Options& options, const RecordShape& shape, std::int64_t records, const fs::path& folder)
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
        if (!fs::is_regular_file(path)) {
            throw IoError({.where = path.string(),
                           .expected = "a script of --peer",
                           .got = "no such file",
                           .hint = "pass --peer-scripts with bench/peers/storage of Stoker's source folder"});
        }
        return path.string();
    }

    void prepare() {
        const char* maker = options_.peer ? "python" : "stoker";
        data_ = find_storage_data(folder_, maker, records_);
        if (data_.records > 0) {
            return;
        }
        fmt::print(stderr, "making {} records of {} bytes in {}\n", with_commas(static_cast<double>(records_)),
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
            run_child(command, catch_signals());
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
        throw IoError({.where = (folder_ / row.files.front()).string(), .expected = "data", .got = "no such file"});
    }

    Rate measured(const Dataset& dataset, const Row& row, std::uint32_t first_epoch, std::uint32_t epochs) const {
        const StorageRead read = read_all(dataset, options_.workers, first_epoch, epochs);
        check_sum(file_of(row).string(), read.sum, epochs * data_.sums.at(row.sum));
        return {static_cast<double>(read.samples) / read.seconds, static_cast<double>(read.bytes) / read.seconds};
    }

    Rate peer_round(const Row& row) const {
        std::vector<std::string> command = {
            options_.python, script("read.py"),        row.peer,    folder_.string(),
            "--records",     std::to_string(records_), "--workers", std::to_string(options_.workers)};
        if (options_.cold) {
            command.emplace_back("--cold");
        }
        const Json said = Json::parse(run_child(command, catch_signals()), nullptr, false);
        check_interrupt();
        if (!said.is_object()) {
            throw DataError({.path = command[1]}, {.where = row.peer, .expected = "one line of JSON", .got = "others"});
        }
        check_sum(fmt::format("{} read by {}", file_of(row).string(), row.peer), said.at("sum").get<std::uint64_t>(),
                  said.at("passes").get<std::uint64_t>() * data_.sums.at(row.peer_sum));
        return {.samples_per_second = said.at("samples").get<double>() / said.at("seconds").get<double>()};
    }

    Json run_row(const Row& row) {
        const bool with_peer = options_.peer && *row.peer != '\0';
        const std::string path = file_of(row).string();
        std::unique_ptr<Dataset> dataset;
        std::uint32_t epochs = 1;
        std::uint32_t epoch = 0;
        if (!options_.cold) {
            dataset = open_dataset(path, Split::train);
            measured(*dataset, row, epoch++, 1);  // meets every page for the first time, which says little of the next
            const Rate warm = measured(*dataset, row, epoch++, 1);
            epochs = static_cast<std::uint32_t>(
                std::ceil(kEnough * warm.samples_per_second / static_cast<double>(records_)));
        }
        std::vector<double> rates;
        std::vector<double> bytes;
        std::vector<double> peer_rates;
        for (int round = 0; round < options_.rounds; ++round) {
            check_interrupt();
            if (options_.cold) {
                dataset.reset();  // pages that are mapped stay
                drop_from_cache(path);
                dataset = open_dataset(path, Split::train);
            }
            const Rate ours = measured(*dataset, row, epoch, epochs);
            epoch += epochs;
            rates.push_back(ours.samples_per_second);
            bytes.push_back(ours.bytes_per_second);
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

    const Options& options_;
    RecordShape shape_;
    std::int64_t records_;
    fs::path folder_;
    StorageData data_;
};

void report(const Json& size, bool cold) {
    fmt::print("{} records of {} bytes, {}\n\n", with_commas(size["records"]), with_commas(size["bytes"]),
               cold ? "not in the page cache" : "in the page cache");
    fmt::print("{:<20} {:>12} {:>10} {:>15} {:>7}\n", "", "samples/s", "MB/s", "peer samples/s", "ratio");
    for (const Json& row : size["rows"]) {
        const bool with_peer = row.contains("ratio");
        fmt::print("{:<20} {:>12} {:>10} {:>15} {:>7}\n", row["name"].get<std::string>(),
                   with_commas(row["samples_per_second"]), with_commas(row["mb_per_second"]),
                   with_peer ? with_commas(row["peer_samples_per_second"]) : "",
                   with_peer ? fmt::format("{:.2f}", row["ratio"].get<double>()) : "");
    }
    fmt::print("\n");
}

int run(const Options& options) {
    constexpr RecordShape kSmall{28, 28, 1};
    constexpr RecordShape kLarge{192, 192, 3};
    return until_interrupted([&](const std::atomic<int>& /*stop*/) {
        const Workplace workplace(options.data);
        Json document = {{"workers", options.workers}, {"cold", options.cold}, {"records", Json::array()}};
        for (const RecordShape& shape : {kSmall, kLarge}) {
            const bool small = shape.bytes() == kSmall.bytes();
            const std::int64_t records = small ? options.count : std::max<std::int64_t>(options.count / 100, 16);
            Bench bench(options, shape, records, workplace.folder() / std::to_string(shape.bytes()));
            document["records"].push_back(bench.run());
            if (!options.json) {
                report(document["records"].back(), options.cold);
            }
        }
        if (options.json) {
            fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
        }
        return 0;
    });
}

}  // namespace

Command add_bench_storage(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--data", options->data, "make the files here, keep them, and use them again; default: temporary")
        ->type_name("DIR");
    app.add_option("--count", options->count, "records of 784 bytes; of 110,592 bytes a hundredth of them, at least 16")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{16}, std::int64_t{99'999'999}));
    app.add_option("--workers", options->workers, "threads of ours, processes of the peer")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    app.add_option("--rounds", options->rounds, "how often to measure; medians are reported")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    std::vector<std::string> names;
    for (const Row& row : rows()) {
        names.emplace_back(row.name);
    }
    app.add_option("--only", options->only, "only these rows")->type_name("ROW")->check(CLI::IsMember(names));
    app.add_flag("--cold", options->cold, "before each round take the files from the system's cache (root: all files)");
    auto* peer = app.add_flag("--peer", options->peer, "measure the formats' Python libraries in turn with ours");
    app.add_option("--python", options->python, "the interpreter of --peer, with requirements.txt")
        ->capture_default_str()
        ->needs(peer);
    app.add_option("--peer-scripts", options->scripts, "where the scripts of --peer lie")
        ->capture_default_str()
        ->needs(peer);
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the tables");
    app.footer(std::string(kSides) +
               "\n\nExample:\n"
               "  stoker bench storage\n"
               "  stoker bench storage --peer --rounds 5 --json\n"
               "  stoker bench storage --peer --cold --only lmdb stk");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
