// The records that `stoker bench storage` reads: the same pixels in a folder of image files, LMDB, HDF5, WebDataset
// shards, an array file and an stk set, with the sums of hashes that reading all of them must give.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace stoker::cli {

struct RecordShape {
    int height = 0;
    int width = 0;
    int channels = 0;

    std::int64_t bytes() const { return std::int64_t{height} * width * channels; }
};

struct StorageData {
    std::filesystem::path folder;
    std::int64_t records = 0;
    // Sums of hash_bytes over all records, by what is handed out: "pixels"; "folder": whole image files; from Python
    // also "lmdb": whole values, "webdataset": whole .npy members.
    std::map<std::string, std::uint64_t> sums;
};

// What a `folder` that was made before says of itself. Throws IoError where it is not empty and holds anything else
// than `records` records made by `maker`; without records where there is nothing yet.
StorageData find_storage_data(const std::filesystem::path& folder, const std::string& maker, std::int64_t records);

// Writes all of them into `folder` with Stoker's own writers.
void make_storage_data(const std::filesystem::path& folder, const RecordShape& shape, std::int64_t records);

// The stk set in a folder whose other files are there.
void make_storage_stk(const std::filesystem::path& folder);

// Takes the files from the system's cache: by file for anybody, as a whole for root, who may.
void drop_from_cache(const std::filesystem::path& path);

}  // namespace stoker::cli
