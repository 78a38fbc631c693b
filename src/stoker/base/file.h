// Files as bytes: a read-only memory map, reads at given places, whole-file reads, and writes that a reader sees either
// complete or not at all (temporary name, fsync, rename, fsync of the directory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

class File;

// An open file or folder of the system, closed at the end.
class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}  // below 0: none
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor();

    int get() const { return fd_; }

  private:
    int fd_;
};

class MappedFile {
  public:
    MappedFile() = default;
    // Throws IoError where the file cannot be opened or mapped. An empty file maps to no bytes.
    explicit MappedFile(const std::filesystem::path& path);
    // Of an open file, whatever its name has come to mean since. The map outlives the File.
    explicit MappedFile(const File& file);
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

struct FileInfo {
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;  // since 1970
    std::int64_t changed_ns = 0;   // the same of what is known about the file: cannot be set back
    std::uint64_t inode = 0;
};

// A file for reads at given places, by many threads at once. Unlike a map's, its pages never count as this
// process's memory, and a file cut short meanwhile is an error, not a signal.
class File {
  public:
    explicit File(const std::filesystem::path& path);  // throws IoError

    // Fills `out` with the bytes from `offset` on. Throws IoError, also where the file ends before.
    void read(std::uint64_t offset, std::span<std::byte> out) const;

    // Throws IoError for what is no regular file.
    FileInfo info() const;

    // True where the byte in the middle can be had without waiting, and so most probably all of them; false where the
    // system does not tell. (mincore would tell of each page, but of other people's files it says that all are there.)
    bool in_memory(std::uint64_t offset, std::uint64_t size) const;

    // Asks the system to bring the bytes into memory, where they are not, and does not wait for them. A hint: what goes
    // wrong shows when they are read.
    void will_need(std::uint64_t offset, std::uint64_t size) const;

    // True where half of the descriptors that the process may have open are: whoever could do without this file
    // closes it. A new descriptor is the lowest number that is free, so its number tells how many are in use.
    bool scarce() const;

  private:
    friend class MappedFile;

    std::filesystem::path path_;  // for messages
    Descriptor file_;
};

// A folder whose many files are read by name: the way to it is walked once.
class Folder {
  public:
    explicit Folder(const std::filesystem::path& path);  // throws IoError

    // Reads the whole file of this name, such as "cat/001.jpg", into `buffer`, whose memory is reused. True where its
    // bytes were in memory: where the system does not tell, where they came within a millisecond. Throws IoError. By
    // many threads at once.
    bool read_file(std::string_view name, Buffer& buffer) const;

    // Asks the system to bring the file's bytes into memory, and does not wait for them. True where the first of them
    // were there. What goes wrong shows when the file is read.
    bool will_need(std::string_view name) const noexcept;

  private:
    Descriptor open(std::string_view name) const;  // below 0 where that fails

    std::filesystem::path path_;  // for messages
    Descriptor folder_;
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
