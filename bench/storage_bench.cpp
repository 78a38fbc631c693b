// LMDB and HDF5 records read by Stoker and by the libraries' C interfaces, in turns: does a reader of ours pay?
// The files are those that `stoker bench storage --data DIR` leaves behind. Every byte read is hashed (XXH3).
#include <fmt/format.h>
#include <hdf5.h>
#include <lmdb.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "stoker/base/hash.h"
#include "stoker/formats/open.h"

namespace {

using namespace stoker;
namespace fs = std::filesystem;

constexpr std::size_t kBatch = 64;
constexpr double kMinSeconds = 0.5;

// Reads the records with these indices and returns the sum of their hashes. One reader belongs to one thread.
using Reader = std::function<std::uint64_t(std::span<const std::int64_t>)>;

void require(bool holds, const char* call) {
    if (!holds) {
        throw std::runtime_error(fmt::format("{} failed", call));
    }
}

Reader stoker_reader(const std::shared_ptr<Dataset>& dataset) {
    return [dataset, sample = std::make_shared<Sample>()](std::span<const std::int64_t> indices) {
        std::uint64_t sum = 0;
        dataset->prefetch(indices.first(std::min(kBatch, indices.size())));
        for (std::size_t at = 0; at < indices.size(); ++at) {
            if (at % kBatch == 0 && at + kBatch < indices.size()) {
                const auto rest = indices.subspan(at + kBatch);
                dataset->prefetch(rest.first(std::min(kBatch, rest.size())));
            }
            dataset->read(indices[at], *sample);
            sum += hash_bytes(sample->bytes);
        }
        return sum;
    };
}

// mdb_get of each key in a transaction of the thread. `skip`: bytes before the pixels of each value; `bytes` of pixels.
Reader lmdb_reader(const fs::path& path, std::size_t skip, std::size_t bytes) {
    MDB_env* env = nullptr;
    require(mdb_env_create(&env) == 0, "mdb_env_create");
    const std::shared_ptr<MDB_env> environment(env, mdb_env_close);
    mdb_env_set_mapsize(env, fs::file_size(path));
    require(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0) == 0,
            "mdb_env_open");
    MDB_txn* begun = nullptr;
    require(mdb_txn_begin(env, nullptr, MDB_RDONLY, &begun) == 0, "mdb_txn_begin");
    const std::shared_ptr<MDB_txn> transaction(begun, [environment](MDB_txn* txn) { mdb_txn_abort(txn); });
    MDB_dbi table = 0;
    require(mdb_dbi_open(begun, nullptr, 0, &table) == 0, "mdb_dbi_open");
    return [transaction, table, skip, bytes](std::span<const std::int64_t> indices) {
        std::uint64_t sum = 0;
        for (const std::int64_t index : indices) {
            char name[16];
            const auto end = fmt::format_to_n(name, sizeof name, "{:08}", index);
            MDB_val key{end.size, name};
            MDB_val value{};
            require(mdb_get(transaction.get(), table, &key, &value) == 0 && value.mv_size >= skip + bytes, "mdb_get");
            sum += hash_bytes({static_cast<const std::byte*>(value.mv_data) + skip, bytes});
        }
        return sum;
    };
}

// H5Dread of one row. The library allows one thread at a time.
Reader hdf5_reader(const fs::path& path) {
    static std::mutex library;
    const std::scoped_lock lock(library);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);  // as Stoker, which has the same file open
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
    require(file >= 0, "H5Fopen");
    const hid_t dataset = H5Dopen2(file, "images", H5P_DEFAULT);
    require(dataset >= 0, "H5Dopen2");
    const hid_t space = H5Dget_space(dataset);
    std::vector<hsize_t> shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, shape.data(), nullptr);
    shape[0] = 1;
    const hid_t memory = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    std::size_t bytes = 1;
    for (const hsize_t length : shape) {
        bytes *= length;
    }
    return [=, row = std::vector<std::byte>(bytes)](std::span<const std::int64_t> indices) mutable {
        std::uint64_t sum = 0;
        for (const std::int64_t index : indices) {
            std::vector<hsize_t> start(shape.size(), 0);
            start[0] = static_cast<hsize_t>(index);
            {
                const std::scoped_lock one(library);
                H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr);
                require(H5Dread(dataset, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, row.data()) >= 0, "H5Dread");
            }
            sum += hash_bytes(row);
        }
        return sum;
    };
}

struct Timing {
    double rate = 0;  // records a second
    std::uint64_t sum = 0;
};

// Passes over all records in a shuffled order, each thread with its own reader and an equal share.
Timing time_reading(std::vector<Reader>& readers, const std::vector<std::int64_t>& order, int passes) {
    const std::size_t share = (order.size() + readers.size() - 1) / readers.size();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::future<std::uint64_t>> parts;
    for (std::size_t i = 0; i < readers.size(); ++i) {
        const std::size_t first = std::min(order.size(), i * share);
        const std::span<const std::int64_t> part(order.data() + first, std::min(share, order.size() - first));
        parts.push_back(std::async(std::launch::async, [&reader = readers[i], part, passes] {
            std::uint64_t sum = 0;
            for (int pass = 0; pass < passes; ++pass) {
                sum = reader(part);
            }
            return sum;
        }));
    }
    Timing timing;
    for (auto& part : parts) {
        timing.sum += part.get();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    timing.rate = static_cast<double>(order.size()) * passes / seconds;
    return timing;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

void compare(const fs::path& path, const std::function<Reader()>& library, int threads, int rounds) {
    const std::shared_ptr<Dataset> dataset = open_dataset(path.string(), Split::train);
    std::vector<std::int64_t> order(static_cast<std::size_t>(dataset->size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<std::int64_t>(i);
    }
    std::ranges::sort(order, {}, [](std::int64_t i) { return hash_text("", static_cast<std::uint64_t>(i)); });
    std::vector<Reader> ours;
    std::vector<Reader> theirs;
    for (int i = 0; i < threads; ++i) {
        ours.push_back(stoker_reader(dataset));
        theirs.push_back(library());
    }
    const Timing warm = time_reading(ours, order, 1);
    require(warm.sum == time_reading(theirs, order, 1).sum, "the comparison of the hashes");
    const int passes = static_cast<int>(std::ceil(kMinSeconds * warm.rate / static_cast<double>(order.size())));
    std::vector<double> rates;
    std::vector<double> library_rates;
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
        rates.push_back(time_reading(ours, order, passes).rate);
        library_rates.push_back(time_reading(theirs, order, passes).rate);
        ratios.push_back(rates.back() / library_rates.back());
    }
    fmt::print("{:<13} {:>7} {:>12.0f} {:>12.0f} {:>7.2f}\n", path.filename().string(), threads, median(rates),
               median(library_rates), median(ratios));
}

// The offset of the pixels in a value, from the first record read by Stoker.
std::size_t pixels_begin(const Dataset& dataset, const fs::path& path, std::size_t bytes) {
    Sample sample;
    dataset.read(0, sample);
    const std::uint64_t expected = hash_bytes(sample.bytes);
    for (std::size_t skip = 0; skip < 4096; ++skip) {
        try {
            if (lmdb_reader(path, skip, bytes)(std::vector<std::int64_t>{0}) == expected) {
                return skip;
            }
        } catch (const std::runtime_error&) {
            break;  // beyond the value
        }
    }
    throw std::runtime_error("the first value does not hold the first record's pixels");
}

void run(const fs::path& folder, int threads, int rounds) {
    fmt::print("{:<13} {:>7} {:>12} {:>12} {:>7}\n", "", "threads", "Stoker", "C library", "ratio");
    std::vector<std::int64_t> sizes;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        sizes.push_back(std::atoll(entry.path().filename().c_str()));
    }
    std::ranges::sort(sizes);
    for (const std::int64_t bytes : sizes) {
        fmt::print("records of {} bytes, records/s\n", bytes);
        const fs::path lmdb = folder / std::to_string(bytes) / "records.lmdb";
        const fs::path hdf5 = folder / std::to_string(bytes) / "records.h5";
        const std::size_t skip = pixels_begin(*open_dataset(lmdb.string(), Split::train), lmdb, bytes);
        for (const int count : {1, threads}) {
            compare(
                lmdb, [&] { return lmdb_reader(lmdb, skip, bytes); }, count, rounds);
            compare(
                hdf5, [&] { return hdf5_reader(hdf5); }, count, rounds);
        }
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        fmt::print(stderr, "usage: storage_bench DIR [THREADS [ROUNDS]], DIR from stoker bench storage --data DIR\n");
        return 2;
    }
    try {
        run(arguments[1], count > 2 ? std::atoi(arguments[2]) : 2, count > 3 ? std::atoi(arguments[3]) : 5);
    } catch (const std::exception& error) {
        fmt::print(stderr, "storage_bench: {}\n", error.what());
        return 1;
    }
    return 0;
}
