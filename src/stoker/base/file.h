// Files as bytes: a read-only memory map, whole-file reads, and writes that a reader sees either
// complete or not at all (temporary name, fsync, rename, fsync of the directory).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

class MappedFile {
  public:
    MappedFile() = default;
    // Throws IoError where the file cannot be opened or mapped. An empty file maps to no bytes.
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// Reads the whole file into `buffer`, whose memory is reused. Throws IoError.
void read_file(const std::filesystem::path& path, Buffer& buffer);
std::string read_text(const std::filesystem::path& path);

// Replaces `path` atomically and durably by the pieces, one after the other. Throws IoError.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);
void write_file(const std::filesystem::path& path, std::string_view text);

// Makes the entries of a directory durable.
void sync_directory(const std::filesystem::path& directory);

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace stoker
