// The files that `stoker bench storage` reads: the same pixels as a folder of image files, LMDB, HDF5, WebDataset
// shards, an array file and an stk data set, with the hash sums that reading all records must yield.
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
    // Sums of hash_bytes over all records. "pixels": the raw pixels; "folder": whole image files. If Python wrote the
    // files also "lmdb": whole values, "webdataset": whole .npy members.
    std::map<std::string, std::uint64_t> sums;
};

// Reads the description of existing files; `records` of the result is 0 if the folder is empty or missing. Throws
// IoError if the folder holds anything else than `records` records written by `maker`.
StorageData find_storage_data(const std::filesystem::path& folder, const std::string& maker, std::int64_t records);

// Writes all files into `folder` with Stoker's writers.
void make_storage_data(const std::filesystem::path& folder, const RecordShape& shape, std::int64_t records);

// Writes the stk data set from the HDF5 file in `folder`.
void make_storage_stk(const std::filesystem::path& folder);

// Drops the files from the page cache; as root drops the whole page cache, with directories and inodes.
void drop_from_cache(const std::filesystem::path& path);

}  // namespace stoker::cli
