// The text of a trace file, front to back: plain or gzip, which the first bytes tell apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "stoker/base/file.h"
#include "stoker/io/gzip.h"

namespace stoker {

class TraceBytes {
  public:
    // Throws IoError.
    explicit TraceBytes(const std::filesystem::path& path);
    // Bytes in memory, which must outlive this object.
    explicit TraceBytes(std::span<const std::byte> bytes);

    // Fills `out`, or less at the end, and returns the number of bytes. Bytes that cannot be unpacked end the text;
    // damage() says why.
    std::size_t read(std::span<char> out);

    // Empty if the text was complete so far.
    const std::optional<std::string>& damage() const { return damage_; }

  private:
    std::size_t read_packed(std::span<std::byte> out);

    std::optional<File> file_;
    MappedFile map_;
    std::span<const std::byte> bytes_;
    std::uint64_t size_ = 0;
    std::uint64_t offset_ = 0;
    std::unique_ptr<GzipReader> gzip_;
    std::optional<std::string> damage_;
};

}  // namespace stoker
