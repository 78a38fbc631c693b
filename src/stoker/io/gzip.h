// Gzip in memory, by zlib: a reader that never writes more than it is asked for, so that whoever
// knows the honest size bounds the work, and a packer for the writers of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stoker/base/buffer.h"

namespace stoker {

// Deflate spends at least two bits on 258 bytes, so no gzip file grows by more than this factor.
inline constexpr std::size_t kMaxGzipRatio = 1032;

// Told by the first two bytes, 1f 8b, whatever the file is called.
bool is_gzip(std::span<const std::byte> bytes);

// Reads a gzip stream of one or more members, front to back. Its DataErrors lack the path.
class GzipReader {
  public:
    explicit GzipReader(std::span<const std::byte> packed);
    GzipReader(const GzipReader&) = delete;
    GzipReader& operator=(const GzipReader&) = delete;
    ~GzipReader();

    // Fills `out` as far as the stream goes and returns the bytes written. Throws DataError for
    // damaged data, a wrong checksum, and bytes after the end that are not gzip.
    std::size_t read(std::span<std::byte> out);

    // True once the stream has ended before its last member did.
    bool cut_short() const { return cut_short_; }

    // Bytes of the packed stream consumed so far.
    std::int64_t offset() const { return static_cast<std::int64_t>(offset_); }

  private:
    struct Stream;

    void end_member();

    std::span<const std::byte> packed_;
    std::size_t offset_ = 0;
    bool ended_ = false;
    bool cut_short_ = false;
    std::unique_ptr<Stream> stream_;
};

// The pieces, one after the other, as one gzip member. The same bytes give the same file: no time, no name.
Buffer gzip(std::span<const std::span<const std::byte>> pieces);

}  // namespace stoker
