// Zip files, the container of .npz and of torch's .pt. The directory is checked against the file before it is used.
// Stored members are views into the file, deflated ones are inflated by zlib, others are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"

namespace stoker {

struct ZipEntry {
    enum Method : std::uint16_t { stored = 0, deflated = 8 };

    std::string name;
    std::uint16_t method = stored;
    std::uint64_t compressed_size = 0;
    std::uint64_t size = 0;    // equal to compressed_size if stored, at most 1032 times as much if deflated
    std::uint64_t offset = 0;  // of the member's data in the file
    std::uint32_t crc32 = 0;
};

// True if the bytes begin with a member's header, as zip files of Python and torch do.
bool is_zip(std::span<const std::byte> bytes);

class ZipFile {
  public:
    // Maps the file and checks the central directory and the members' own headers: everything lies within the file, and
    // no two members overlap or have the same name. Entries of folders are only counted. Throws DataError, or
    // Unsupported for encrypted members and archives of several files.
    explicit ZipFile(const std::filesystem::path& path);
    // The same for bytes in memory, which must outlive this object.
    explicit ZipFile(std::span<const std::byte> bytes);
    ZipFile(const ZipFile&) = delete;
    ZipFile& operator=(const ZipFile&) = delete;

    // In the order of the directory.
    const std::vector<ZipEntry>& entries() const { return entries_; }

    // How many entries of folders there are, whose names end with a slash.
    std::size_t folders() const { return folders_; }

    // Null if the archive lacks a member with that name.
    const ZipEntry* find(std::string_view name) const;

    // The member's bytes in the file, without checking its checksum. Throws Unsupported if they are compressed.
    std::span<const std::byte> stored(const ZipEntry& entry) const;

    // A copy of the member's bytes, inflated if needed, checked against its size and checksum. Throws DataError, and
    // MemoryError for a size beyond the memory limit.
    Buffer inflate(const ZipEntry& entry) const;

    // Reads a stored member once and compares it with its checksum. Throws DataError. Only for archives whose writer is
    // known to store checksums: torch.save can be told not to.
    void check_stored(const ZipEntry& entry) const;

    // Null for bytes in memory.
    const File* file() const { return file_ ? &*file_ : nullptr; }

    // The whole file.
    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    struct Found {
        ZipEntry entry;
        std::uint64_t header = 0;  // offset of this entry's header
        std::uint64_t next = 0;    // offset of the next directory entry
    };

    void read_directory();
    Found read_entry(std::uint64_t at, std::uint64_t stop) const;
    void place_data(Found& found, std::uint64_t at, std::uint64_t directory) const;
    void check_entries(std::span<const std::uint64_t> headers) const;
    void check_sum(const ZipEntry& entry, std::uint32_t found) const;
    [[noreturn]] void refuse(std::uint64_t offset, std::string expected, std::string got) const;
    [[noreturn]] void unsupported(std::string expected, std::string got) const;

    std::string path_;
    std::optional<File> file_;
    MappedFile map_;
    std::span<const std::byte> bytes_;
    std::vector<ZipEntry> entries_;
    std::size_t folders_ = 0;
    std::vector<std::uint32_t> by_name_;  // numbers of entries, sorted by their names
};

}  // namespace stoker
