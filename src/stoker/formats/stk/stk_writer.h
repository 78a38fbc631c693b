// Writes an stk data set, shard after shard. What is finished stays: the folder of a writer that was ended,
// killed even, is taken up again where its last whole shard ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/folder_lock.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "stoker/formats/stk/stk_shard_writer.h"

namespace stoker {

struct StkWriterOptions {
    std::uint64_t shard_size = std::uint64_t{256} << 20;  // bytes of payload after which a shard is closed
    // A JSON object that says where the samples come from and what is done to them. An unfinished data set is
    // continued only where its own is the same.
    std::string origin = "{}";
};

class StkWriter {
  public:
    // `directory` is new, empty, or an unfinished data set of the same origin. Locks it against a second
    // writer. Throws IoError for any other folder, InvalidArgument for another origin.
    StkWriter(const std::filesystem::path& directory, StkSchema schema, const StkWriterOptions& options = {});
    StkWriter(const StkWriter&) = delete;
    StkWriter& operator=(const StkWriter&) = delete;
    ~StkWriter();

    // Finished shards found in the folder, with the notes on each. `keep` drops all but the first `count` of
    // them: the caller has checked those, or has not read as far. Before the first `add` only.
    const StkManifest& manifest() const { return manifest_; }
    void keep(std::size_t count);

    // Samples of all finished shards and of the one under way.
    std::uint64_t samples() const;

    // The next sample; see StkShardWriter::add. Closes the shard under way where this one would make it too large.
    void add(std::string_view key, std::span<const StkValue> values);

    // For writers that keep notes: whether `add` would close the shard, and closing it with notes on everything
    // that was added before. Notes are a JSON text.
    bool closes_shard(std::span<const StkValue> values) const;
    void close_shard(const std::string& notes = "{}");

    // Closes the last shard and makes the data set complete. At least one sample. `origin` replaces the one of
    // the options.
    void finish(const std::string& origin);

  private:
    void take_up(const std::string& origin);
    void remove_unfinished();

    std::filesystem::path directory_;
    StkSchema schema_;
    std::uint64_t shard_size_;
    std::optional<FolderLock> lock_;  // outlives the shard
    StkManifest manifest_;
    std::unique_ptr<StkShardWriter> shard_;
};

}  // namespace stoker
