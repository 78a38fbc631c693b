// Bytes at given offsets of a local file, or of a remote object behind http(s)://, s3://, gs:// or hf://. Tar shards
// and stk shards are read through this interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"

namespace stoker {

struct ByteRange {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;

    bool operator==(const ByteRange&) const = default;
};

// How remote data is fetched and cached.
struct RemoteOptions {
    std::filesystem::path cache_dir;  // disk cache of fetched blocks; empty: memory only
    std::int64_t cache_bytes = 0;     // size limit of cache_dir
    // Requests are retried for this long after the server last made progress: long enough for a restart. A server that
    // never answered this process gets a sixth of it.
    std::chrono::milliseconds patience{60'000};
    std::chrono::milliseconds first_pause{200};  // before the first retry; doubles with each further one
    std::chrono::seconds stall_time{10};         // a request with almost no bytes for so long has failed
    std::int64_t block_bytes = 1 << 20;          // unit of fetching and caching
    std::int64_t request_bytes = 8 << 20;        // size limit of one request
};

class ByteFile {
  public:
    virtual ~ByteFile() = default;

    virtual std::uint64_t size() const = 0;

    // Fills `out` with the bytes from `offset` on. Thread-safe. Throws IoError if they cannot be read, also if the file
    // ends before; never returns other bytes.
    virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

    // The same for bytes that failed a check: a remote file bypasses its caches and fetches them again.
    virtual void read_anew(std::uint64_t offset, std::span<std::byte> out) const { read(offset, out); }

    // The whole file mapped into memory, valid as long as this object; empty for remote files. The first call maps it.
    virtual std::span<const std::byte> map() const { return {}; }

    // The same as of a File.
    virtual bool in_memory(std::uint64_t /*offset*/, std::uint64_t /*size*/) const { return false; }
    virtual void will_need(std::uint64_t /*offset*/, std::uint64_t /*size*/) const {}

    // Starts fetching the ranges that will be read next, without waiting. Does nothing for local files.
    virtual void prefetch(std::span<const ByteRange> /*ranges*/) const {}

    // The path or URL, for messages.
    virtual const std::string& name() const = 0;

    // A name that is unique, including signatures in URLs: for keys of caches, never for messages.
    virtual std::string identity() const { return name(); }

    // Changes when the content changes, as far as that is known without reading it: size, times and inode of a local
    // file, size and ETag of a remote one. Cached indices of the file are valid for one stamp.
    virtual std::string stamp() const = 0;

    // False if a further change could leave the same stamp, because the last change was a moment ago or the server
    // sends no version. Then nothing about the file may be cached.
    virtual bool settled() const { return true; }

    virtual bool remote() const { return false; }
};

// Sorts the ranges by offset and joins those with at most `gap` bytes between them.
std::vector<ByteRange> merge_ranges(std::vector<ByteRange> ranges, std::uint64_t gap);

// Remote payloads with a smaller gap between them are fetched in one request.
inline constexpr std::uint64_t kNearBytes = std::uint64_t{64} << 10;

// Threads that open many remote files: they wait for the network, not for a core.
inline constexpr int kRemoteThreads = 16;

// stamp() and settled() of a local file.
std::string stamp_of(const FileInfo& info);
bool is_settled(const FileInfo& info);

// True for a name with a scheme, such as https:// or s3://.
bool is_remote(std::string_view name);

// The name for messages: a URL without user, password and query, because the query may hold a signature.
std::string shown_name(std::string_view name);

// Throws IoError if nothing of that name exists, Unsupported for another scheme.
std::unique_ptr<ByteFile> open_byte_file(const std::string& name, const RemoteOptions& options = {});

}  // namespace stoker
