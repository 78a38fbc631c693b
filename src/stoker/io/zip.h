// The directory of a zip file, checked against the file before anything in it is believed: what npz and torch's .pt
// files are. Stored members are views into the bytes, deflated ones are inflated by zlib; others are refused.
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
    std::uint64_t size = 0;    // as many as compressed_size where stored, at most 1032 times as many where deflated
    std::uint64_t offset = 0;  // of the member's data in the file
    std::uint32_t crc32 = 0;
};

// True where the bytes begin with the header of a member: zip files from Python and torch do, if they have members.
bool is_zip(std::span<const std::byte> bytes);

class ZipFile {
  public:
    // Maps the file and checks its directory, the central one and the members' own headers: everything lies within
    // the file, no two members overlap or share a name. Folders are left out. Throws DataError, or Unsupported for
    // encrypted members and for archives of several files.
    explicit ZipFile(const std::filesystem::path& path);
    // Of bytes in memory, which have to outlive this object.
    explicit ZipFile(std::span<const std::byte> bytes);
    ZipFile(const ZipFile&) = delete;
    ZipFile& operator=(const ZipFile&) = delete;

    // In the order of the directory.
    const std::vector<ZipEntry>& entries() const { return entries_; }

    // Null where there is no member of that name.
    const ZipEntry* find(std::string_view name) const;

    // The member's bytes as they lie in the file, not checked against its checksum. Throws Unsupported where they are
    // compressed.
    std::span<const std::byte> stored(const ZipEntry& entry) const;

    // A member's bytes, inflated or copied, checked against its size and checksum. Throws DataError.
    Buffer inflate(const ZipEntry& entry) const;

    // Compares a stored member's bytes with its checksum, reading them through once. Throws DataError. For archives
    // whose writers are known to note one: torch.save may be told not to.
    void check_stored(const ZipEntry& entry) const;

    // Null for bytes in memory.
    const File* file() const { return file_ ? &*file_ : nullptr; }

    // Of the whole file.
    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    struct Found {
        ZipEntry entry;
        std::uint64_t header = 0;  // where its own header lies
        std::uint64_t next = 0;    // where the directory goes on
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
    std::vector<std::uint32_t> by_name_;  // numbers of entries, sorted by their names
};

}  // namespace stoker
