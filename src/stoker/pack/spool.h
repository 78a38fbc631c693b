// Samples on their way into a file of columns, which wants all images, then all labels, then all keys: three files
// that only grow, and can be cut back to the end of a part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "stoker/io/append_file.h"

namespace stoker {

// Samples that follow each other.
struct SpoolBatch {
    std::span<const std::byte> pixels;                   // of all images, one after the other
    std::span<const std::span<const std::byte>> images;  // each, within `pixels`
    std::span<const std::int64_t> labels;
    std::span<const std::string_view> keys;
};

class Spool {
  public:
    using Json = nlohmann::ordered_json;

    explicit Spool(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // Goes on where `state` (of save) says; null: at the start.
    void resume(const Json* state);
    void add(std::string_view key, std::int64_t label, std::span<const std::byte> image);
    // Brings everything to the disk.
    Json save(std::uint64_t& hash);
    std::uint64_t read_hash(const Json* before, const Json& state) const;

    // The first `count` samples in batches of some MiB; without `images` their bytes are left out.
    void read(std::int64_t count, bool images, const std::function<void(const SpoolBatch&)>& take) const;

  private:
    std::filesystem::path folder_;
    std::unique_ptr<AppendFile> images_;
    std::unique_ptr<AppendFile> keys_;
    std::unique_ptr<AppendFile> records_;  // of each sample: where its image and its key end, and its label
};

}  // namespace stoker
