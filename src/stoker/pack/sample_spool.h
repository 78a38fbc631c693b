// Stores samples for a target file of columns (HDF5, npz), which needs all images before all labels and keys. The spool
// is three append-only files, which can be cut back to the end of a part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "stoker/io/append_file.h"

namespace stoker {

// Consecutive samples.
struct SpoolBatch {
    std::span<const std::byte> pixels;                   // all images, concatenated
    std::span<const std::span<const std::byte>> images;  // each image, a part of `pixels`
    std::span<const std::int64_t> labels;
    std::span<const std::string_view> keys;
};

class SampleSpool {
  public:
    using Json = nlohmann::ordered_json;

    // `prefix`: of the files' names, for a second spool in the folder.
    explicit SampleSpool(std::filesystem::path folder, std::string prefix = "")
        : folder_(std::move(folder)), prefix_(std::move(prefix)) {}

    // Opens the files and cuts them back to `state`, a result of save(); null: to the start.
    void resume(const Json* state);
    void add(std::string_view key, std::int64_t label, std::span<const std::byte> image);
    // Syncs all files. `hash`: of the bytes added since the last call. read_hash computes the same hash from the files,
    // between two states.
    Json save(std::uint64_t& hash);
    std::uint64_t read_hash(const Json* before, const Json& state) const;

    // Reads the first `count` samples in batches of some MiB. Without `images` the batches have no image bytes. Throws
    // DataError for inconsistent records.
    void read(std::int64_t count, bool images, const std::function<void(const SpoolBatch&)>& take) const;

  private:
    std::filesystem::path path(const char* name) const { return folder_ / (prefix_ + name); }

    std::filesystem::path folder_;
    std::string prefix_;
    std::unique_ptr<AppendFile> images_;
    std::unique_ptr<AppendFile> keys_;
    std::unique_ptr<AppendFile> records_;  // of each sample: end of its image, end of its key, label
};

}  // namespace stoker
