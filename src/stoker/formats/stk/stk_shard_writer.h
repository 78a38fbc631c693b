// Writes one shard: payloads go to the file as they come, the index is kept in memory until the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/stk/stk_layout.h"
#include "stoker/formats/stk/stk_output.h"
#include "stoker/formats/stk/stk_value.h"

namespace stoker {

// What a manifest says about a shard.
struct StkShardInfo {
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;  // of the file
    std::uint64_t hash = 0;   // of its footer, and by way of the hashes in it of everything in the shard

    bool operator==(const StkShardInfo&) const = default;
};

class StkShardWriter {
  public:
    // `shard` is its number and names the file; `first` is the data set's index of its first sample.
    StkShardWriter(const std::filesystem::path& directory, StkSchema schema, std::uint32_t shard, std::uint64_t first);

    // A value for each field of the schema, of the field's kind. Throws InvalidArgument and has written
    // nothing then; IoError.
    void add(std::string_view key, std::span<const StkValue> values);

    std::uint64_t samples() const { return key_ends_.size(); }
    std::uint64_t bytes() const { return output_.size(); }

    // Writes the index and gives the file its name. At least one sample.
    StkShardInfo finish();

  private:
    std::vector<std::byte> join_index() const;

    StkSchema schema_;
    std::uint32_t shard_;
    std::uint64_t first_;
    StkOutput output_;
    std::vector<std::uint64_t> key_ends_;
    std::string key_text_;
    std::vector<std::vector<std::byte>> columns_;  // of each field
};

}  // namespace stoker
