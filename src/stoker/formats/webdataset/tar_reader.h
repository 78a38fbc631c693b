// Iterates over the files of a tar archive and gives the byte range of each; tar_index.h builds an index from it.
// Nothing is unpacked. All reads go through a callback, so files, URLs and fuzzers share one parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// ---- One header block (v7, POSIX ustar and GNU) and the records of a pax header. The DataErrors have no path and
// offset; TarReader adds them. ----

inline constexpr std::size_t kTarBlock = 512;

struct TarHeader {
    std::string name;  // prefix and name, unchecked
    std::uint64_t size = 0;
    char type = '0';
};

// Throws DataError for a wrong checksum or a malformed number.
TarHeader parse_tar_header(std::span<const std::byte, kTarBlock> block);

// Values of a pax header. They replace those of the next member's header; an empty one replaces nothing.
struct PaxFields {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
};

// Parses the records of one pax header, such as "25 path=cat/001.jpg\n", into `fields`. A record without a value clears
// its field; unknown records are skipped. Throws DataError for damage, Unsupported for a sparse file.
void parse_pax(std::span<const std::byte> records, PaxFields& fields);

// A text field or payload, cut at its first zero byte.
std::string tar_text(std::span<const std::byte> field);

// Returns the name without its "." components. Throws DataError for a name that could lead out of the target folder:
// one that is empty, starts with a slash, or has an empty component, ".." or a zero byte. A directory's name may end in
// a slash, and may be just ".", which gives an empty result.
std::string checked_tar_name(std::string_view name, bool directory);

// ---- The members of an archive ----

struct TarMember {
    std::string name;          // relative, without ".", ".." and empty components
    std::uint64_t header = 0;  // offset of its header
    ByteRange payload;         // in the archive
};

// Fills `out` with the archive's bytes from `offset` on. The range always lies within the archive.
using TarRead = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

// Read sizes in bytes. Archives of small members are read sequentially in large pieces. If members are large on
// average, their payloads are skipped and only a short piece is read at each header.
struct TarWindow {
    std::size_t sequential = std::size_t{1} << 20;      // size of a piece in sequential reading
    std::size_t header = std::size_t{4} << 10;          // size of a piece at a header when payloads are skipped
    std::uint64_t skip_from = std::uint64_t{16} << 10;  // average member size from which payloads are skipped
};

class TarReader {
  public:
    // `path` is for messages. Throws Unsupported for a compressed archive, which does not allow random access.
    TarReader(std::string path, std::uint64_t size, TarRead read, const TarWindow& window = {});

    // Advances to the next regular file; returns false at the end. Directories, links, devices and FIFOs are skipped.
    // Throws DataError with the offset for a damaged or truncated archive and for names that could lead out of a
    // folder, Unsupported for sparse files and multi-volume archives.
    bool next(TarMember& member);

    // Bytes of the archive; those right after the last member's header are mostly buffered. Valid until the next call
    // of any function. The range must lie within the archive.
    std::span<const std::byte> bytes(const ByteRange& range);

  private:
    bool advance(TarMember& member);
    bool at_end();
    void read_extension(const TarHeader& header, PaxFields& local);
    bool make_member(const TarHeader& header, const PaxFields& local, TarMember& member);
    ByteRange take_payload(std::uint64_t size);
    void check_range(const ByteRange& range) const;

    std::string path_;
    std::uint64_t size_;
    TarRead read_;
    TarWindow window_;
    std::uint64_t position_ = 0;   // of the next header
    std::uint64_t header_at_ = 0;  // of the last header
    std::string name_;             // from the last header, for messages
    PaxFields global_;
    double average_ = 0;  // moving average of member sizes
    Buffer buffer_;       // the archive's bytes from begin_ on
    std::uint64_t begin_ = 0;
};

}  // namespace stoker
