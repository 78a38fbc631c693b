// Writes one shard: payloads go to the file at once, the index stays in memory until the end. The file has a temporary
// name until finish().
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/stk/stk_layout.h"
#include "stoker/formats/stk/stk_schema.h"
#include "stoker/io/append_file.h"

namespace stoker {

// A shard's entry in the manifest.
struct StkShardInfo {
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;  // size of the file
    std::uint64_t hash = 0;   // of the footer; it covers the whole shard, since the footer holds the other hashes

    bool operator==(const StkShardInfo&) const = default;
};

class StkShardWriter {
  public:
    // `shard` is the number of the shard, which gives the file its name; `first` is the index of its first sample in
    // the data set. `schema` has passed check_schema. The caller holds the lock on the folder, so an existing file of
    // the temporary name belongs to a dead process.
    StkShardWriter(const std::filesystem::path& directory, StkSchema schema, std::uint32_t shard, std::uint64_t first);
    ~StkShardWriter();  // removes an unfinished file

    // `values`: one per field of the schema, of the field's kind. Throws InvalidArgument, before writing anything, and
    // IoError.
    void add(std::string_view key, std::span<const StkValue> values);

    std::uint64_t samples() const { return key_ends_.size(); }
    std::uint64_t bytes() const { return file_.size(); }

    // Writes the index and footer, syncs the file and gives it its final name. Throws InvalidArgument for no samples.
    StkShardInfo finish();

  private:
    void pad();
    StkPlace write_payload(std::span<const std::byte> bytes);
    std::vector<std::byte> join_index() const;

    StkSchema schema_;
    std::uint32_t shard_;
    std::uint64_t first_;
    std::filesystem::path target_;
    AppendFile file_;  // target_ under a temporary name
    bool finished_ = false;
    std::vector<std::uint64_t> key_ends_;
    std::string key_text_;
    std::vector<std::vector<std::byte>> columns_;  // entries by field
};

}  // namespace stoker
