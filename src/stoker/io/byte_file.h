// Bytes at given places of something with a name: a local file, or an object behind http(s):// or s3://. What tar
// shards and stk shards are read through.
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

// How remote data is fetched and kept.
struct RemoteOptions {
    std::filesystem::path cache_dir;  // fetched bytes are kept here; empty: in memory only, as far as read ahead
    std::int64_t cache_bytes = 0;     // the most that cache_dir may hold
    // How long a server that fails is asked again, since it last sent anything of use: long enough for a restart. One
    // that never answered this process gets a sixth of it.
    std::chrono::milliseconds patience{60'000};
    std::chrono::milliseconds first_pause{200};  // before the second try; doubles from then on
    std::chrono::seconds stall_time{10};         // a request that brings next to nothing for so long has failed
    std::int64_t block_bytes = 1 << 20;          // what is fetched and kept at once
    std::int64_t request_bytes = 8 << 20;        // the most that one request asks for
};

class ByteFile {
  public:
    virtual ~ByteFile() = default;

    virtual std::uint64_t size() const = 0;

    // Fills `out` with the bytes from `offset` on. Many threads at once. Throws IoError where they cannot be had, also
    // where the file ends before: never hands out other bytes.
    virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

    // The same for bytes that turned out to be wrong: of a remote file they are fetched anew, past every cache.
    virtual void read_anew(std::uint64_t offset, std::span<std::byte> out) const { read(offset, out); }
    // The whole file mapped into memory, as long as this lives; empty where there is no map. Made when first asked for.
    virtual std::span<const std::byte> map() const { return {}; }

    // As of a File.
    virtual bool in_memory(std::uint64_t /*offset*/, std::uint64_t /*size*/) const { return false; }
    virtual void will_need(std::uint64_t /*offset*/, std::uint64_t /*size*/) const {}

    // Tells which ranges are wanted next; returns at once. Local files have nothing to do.
    virtual void prefetch(std::span<const ByteRange> /*ranges*/) const {}

    // The path or URL, for messages.
    virtual const std::string& name() const = 0;

    // What no other file is called, signatures included: for a cache's names, never for messages.
    virtual std::string identity() const { return name(); }

    // Differs where the content does, as far as can be told without reading it: size and time of a local file, size
    // and ETag of a remote one. What is cached about the file goes by it.
    virtual std::string stamp() const = 0;

    // False where another change might leave the same stamp, as the last one was too lately or the server tells no
    // version: what is learned now is not to be kept.
    virtual bool settled() const { return true; }

    virtual bool remote() const { return false; }
};

// In order of the offsets, where those with at most `gap` bytes between them have become one.
std::vector<ByteRange> merge_ranges(std::vector<ByteRange> ranges, std::uint64_t gap);

// Remote payloads that lie closer to each other than this are fetched in one request.
inline constexpr std::uint64_t kNearBytes = std::uint64_t{64} << 10;

// Opening many remote files at a time: their threads wait for the network, not for a core.
inline constexpr int kRemoteThreads = 16;
// The same two of a local file.
std::string stamp_of(const FileInfo& info);
bool is_settled(const FileInfo& info);

// Has a scheme: http://, https:// or s3://.
bool is_remote(std::string_view name);

// The name as messages may show it: of a URL neither user and password nor the query, where signatures are.
std::string shown_name(std::string_view name);

// Throws IoError where there is nothing of that name, Unsupported for another scheme.
std::unique_ptr<ByteFile> open_byte_file(const std::string& name, const RemoteOptions& options = {});

}  // namespace stoker
