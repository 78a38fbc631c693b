// A byte file behind http://, https:// or s3://. Its blocks are fetched when they are read or prefetched, and kept in
// memory that all remote files share, and on disk if a cache directory is set.
#pragma once

#include <memory>
#include <string>

#include "stoker/io/byte_file.h"
#include "stoker/io/remote/block_cache.h"
#include "stoker/io/remote/block_pool.h"
#include "stoker/io/remote/remote_object.h"

namespace stoker {

// Shared by the remote files of a process, as long as one of them exists.
struct RemoteShared {
    std::shared_ptr<HttpClient> client;
    std::shared_ptr<BlockPool> pool;
};

// 256 MiB of blocks, 8 connections for prefetching.
RemoteShared shared_remote();

// One cache object per directory, shared by all files that use it. Null if the options name no directory.
std::shared_ptr<BlockCache> shared_block_cache(const RemoteOptions& options);

class RemoteFile final : public ByteFile {
  public:
    // Throws IoError if the object does not exist, InvalidArgument for invalid options and names.
    RemoteFile(const std::string& name, const RemoteOptions& options, RemoteShared shared = shared_remote());
    ~RemoteFile() override;
    RemoteFile(const RemoteFile&) = delete;
    RemoteFile& operator=(const RemoteFile&) = delete;

    std::uint64_t size() const override;
    void read(std::uint64_t offset, std::span<std::byte> out) const override;
    void read_anew(std::uint64_t offset, std::span<std::byte> out) const override;
    void prefetch(std::span<const ByteRange> ranges) const override;
    const std::string& name() const override;
    std::string identity() const override;
    std::string stamp() const override;
    bool settled() const override;
    bool remote() const override { return true; }

  private:
    class Origin;

    void check_range(std::uint64_t offset, std::uint64_t size) const;

    RemoteShared shared_;
    std::shared_ptr<Origin> origin_;
};

}  // namespace stoker
