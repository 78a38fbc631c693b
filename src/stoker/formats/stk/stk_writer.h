// Writes an stk data set, shard after shard. A writer on the folder of an interrupted one, even a killed one, resumes
// after the last finished shard.
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
    // JSON object: source of the samples and how they are processed. An unfinished data set is resumed only if its
    // origin is the same.
    std::string origin = "{}";
};

class StkWriter {
  public:
    // `directory` is new, empty, or an unfinished data set of the same origin. Locks it against a second writer. Throws
    // IoError for any other folder, InvalidArgument for another origin or a bad schema.
    StkWriter(const std::filesystem::path& directory, StkSchema schema, const StkWriterOptions& options = {});

    // The finished shards and the notes on each. keep_shards removes all but the first `count`; call it only before the
    // first add().
    const StkManifest& manifest() const { return manifest_; }
    void keep_shards(std::size_t count);

    // Samples of all finished shards and of the open one.
    std::uint64_t samples() const;

    // Adds the next sample; see StkShardWriter::add. Closes the open shard first if the sample would make it too large.
    void add(std::string_view key, std::span<const StkValue> values);

    // For callers that attach notes, a JSON text, to each shard: closes_shard says whether add() would close the open
    // shard; close_shard closes it with these notes.
    bool closes_shard(std::span<const StkValue> values) const;
    void close_shard(const std::string& notes = "{}");

    // Closes the last shard and writes the manifest. `origin` replaces the one in the options. Throws InvalidArgument
    // for no samples.
    void finish(const std::string& origin);

  private:
    void resume_or_start(const std::string& origin);
    void remove_unfinished();

    std::filesystem::path directory_;
    StkSchema schema_;
    std::uint64_t shard_size_;
    std::optional<FolderLock> lock_;  // declared before shard_, so released after it
    StkManifest manifest_;
    std::unique_ptr<StkShardWriter> shard_;
};

}  // namespace stoker
