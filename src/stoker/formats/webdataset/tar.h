// The files of a tar archive, one after the other, with the places of their bytes: what an index is made from.
// Nothing is unpacked, and nothing but the callback is read from, so the same parser serves files, URLs and fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/formats/webdataset/tar_header.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct TarMember {
    std::string name;          // relative, without ".", ".." and empty components
    std::uint64_t header = 0;  // where its header begins
    ByteRange payload;         // within the archive
};

// Fills `out` with the archive's bytes from `offset` on; only ever asked for what lies within its size.
using TarRead = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

// Small members are read through in large pieces; where members are large on average, their payloads are skipped and
// short pieces read at each header.
struct TarWindow {
    std::size_t through = std::size_t{1} << 20;    // bytes of a piece that is read through
    std::size_t peek = std::size_t{4} << 10;       // bytes at a header where payloads are skipped
    std::uint64_t skip = std::uint64_t{16} << 10;  // average member from which on they are
};

class TarReader {
  public:
    // `path` is for messages. Throws Unsupported for a compressed archive, which has no random access.
    TarReader(std::string path, std::uint64_t size, TarRead read, const TarWindow& window = {});

    // Goes on to the next regular file; false at the archive's end. Directories, links, devices and FIFOs are passed
    // over. Throws DataError with the offset for a damaged or truncated archive and for names that could lead out of
    // a folder; Unsupported for sparse files and parts of archives on several volumes.
    bool next(TarMember& member);

    // Bytes of the archive, best those just after a member's header: then they are mostly in memory. Valid until the
    // next call of any function. The range must lie within the archive.
    std::span<const std::byte> bytes(const ByteRange& range);

  private:
    bool advance(TarMember& member);
    bool at_end();
    void extend(const TarHeader& header, PaxFields& local);
    bool finish(const TarHeader& header, const PaxFields& local, TarMember& member);
    ByteRange take_payload(std::uint64_t size);
    void check_range(const ByteRange& range) const;

    std::string path_;
    std::uint64_t size_;
    TarRead read_;
    TarWindow window_;
    std::uint64_t position_ = 0;   // of the next header
    std::uint64_t header_at_ = 0;  // of the last one
    std::string name_;             // as the last header says, for messages
    PaxFields global_;
    double average_ = 0;  // of the last members' sizes
    Buffer buffer_;       // the archive's bytes from begin_ on
    std::uint64_t begin_ = 0;
};

}  // namespace stoker
