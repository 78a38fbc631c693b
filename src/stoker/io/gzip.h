// Gzip and zlib streams in memory, with zlib. The reader never returns more bytes than the caller's buffer holds, so a
// caller that knows the size bounds the work of a hostile file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stoker/base/buffer.h"

namespace stoker {

// Deflate needs at least two bits for 258 bytes, so no gzip file expands by more than this factor.
inline constexpr std::size_t kMaxGzipRatio = 1032;

// True if the first two bytes are 1f 8b. The file's name does not matter.
bool is_gzip(std::span<const std::byte> bytes);

// True if the first two bytes are a header of zlib's own format.
bool is_zlib(std::span<const std::byte> bytes);

// Reads a gzip stream of one or more members, or a zlib stream of one, from front to back. Its DataErrors have no path.
class GzipReader {
  public:
    explicit GzipReader(std::span<const std::byte> packed, bool zlib = false);
    GzipReader(const GzipReader&) = delete;
    GzipReader& operator=(const GzipReader&) = delete;
    ~GzipReader();

    // Fills `out`, or less at the end of the stream, and returns the number of bytes. Throws DataError for damaged
    // data, a wrong checksum, and bytes after the end that are neither gzip nor zeros.
    std::size_t read(std::span<std::byte> out);

    // True once the input has ended within a member.
    bool truncated() const { return truncated_; }

    // Bytes written so far, those before the damage included.
    std::size_t written() const { return written_; }

    // Bytes of the compressed input consumed so far.
    std::int64_t offset() const { return static_cast<std::int64_t>(offset_); }

  private:
    struct Stream;

    void end_member();

    std::span<const std::byte> packed_;
    bool zlib_;
    std::size_t offset_ = 0;
    std::size_t written_ = 0;
    bool ended_ = false;
    bool truncated_ = false;
    std::unique_ptr<Stream> stream_;
};

// The pieces, one after the other, as one gzip member. The same bytes give the same file: no time, no name.
Buffer gzip(std::span<const std::span<const std::byte>> pieces);

}  // namespace stoker
