// Files as bytes: a read-only memory map, reads at given offsets, whole-file reads, and atomic writes: a reader sees
// the old content or all of the new (temporary name, fsync, rename, fsync of the directory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

class File;

// Owns a file descriptor.
class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}  // negative: none
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
    // Throws IoError if the file cannot be opened or mapped. An empty file maps to no bytes.
    explicit MappedFile(const std::filesystem::path& path);
    // Maps the open file, even if its name refers to another file by now. The map may outlive the File.
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
    std::int64_t modified_ns = 0;  // mtime, since 1970
    std::int64_t changed_ns = 0;   // ctime, since 1970: programs cannot set it back
    std::uint64_t inode = 0;
};

// A file for reads at given offsets. Thread-safe. Unlike the pages of a map, its pages never count as this process's
// memory, and a file that is cut short while open gives an error, not a signal.
class File {
  public:
    explicit File(const std::filesystem::path& path);  // throws IoError

    // Fills `out` with the bytes from `offset` on. Throws IoError, also if the file ends before.
    void read(std::uint64_t offset, std::span<std::byte> out) const;

    // Throws IoError for anything but a regular file.
    FileInfo info() const;

    // True if the middle byte of the range is in the page cache, so that most probably all of it is; false if the file
    // system cannot say. (mincore checks every page, but reports all pages of other users' files as present.)
    bool in_memory(std::uint64_t offset, std::uint64_t size) const;

    // Starts reading the bytes into the page cache if they are not there, without waiting (POSIX_FADV_WILLNEED). Errors
    // are ignored here; the later read reports them.
    void will_need(std::uint64_t offset, std::uint64_t size) const;

    // A path for libraries that open files by name: it leads to this file while it is open, even if its own name refers
    // to another file by now. Needs /proc.
    std::string descriptor_path() const;

    // True if half of the file descriptors that the process may have are in use: a caller that can do without this file
    // should close it. A new descriptor gets the lowest free number, so its number says how many are in use.
    bool scarce() const;

  private:
    friend class MappedFile;

    std::filesystem::path path_;  // for messages
    Descriptor file_;
};

// A folder of many files that are read by name. Its own path is resolved once (openat).
class Folder {
  public:
    explicit Folder(const std::filesystem::path& path);  // throws IoError

    // Reads the whole file of this name, such as "cat/001.jpg", into `buffer`, whose memory is reused. Returns true if
    // its bytes were in the page cache; if the file system cannot say, true if the read took less than a millisecond.
    // Throws DataError for a name without a readable regular file, IoError if the disk fails. Thread-safe.
    bool read_file(std::string_view name, Buffer& buffer) const;

    // Starts reading the file into the page cache without waiting. Returns true if its first byte was there already.
    // Errors are ignored here; the later read reports them.
    bool will_need(std::string_view name) const noexcept;

  private:
    Descriptor open(std::string_view name) const;  // negative on failure, with errno set

    std::filesystem::path path_;  // for messages
    Descriptor folder_;
};

// False also if the path cannot be accessed.
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The paths of the folder's entries, in no order. Throws IoError.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

// The whole file. Throws IoError.
std::string read_text(const std::filesystem::path& path);

// Replaces `path` atomically by the concatenated pieces. With `sync` it returns when they are on the disk; without, the
// file may hold anything after a crash of the machine, so use that only for data that is checked when it is read and
// can be made again. Throws IoError.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces,
                bool sync = true);
void write_file(const std::filesystem::path& path, std::string_view text);

// The file that write_file writes, for content that comes bit by bit: a new file in its target's folder, removed unless
// it is renamed. Names are taken with O_EXCL or link, because threads of one process, and processes on hosts that share
// a file system, may write the same target.
class TemporaryFile {
  public:
    // With `nameless`, and if the file system supports it (O_TMPFILE), the file stays unnamed until it is complete, so
    // a killed process leaves nothing. Throws IoError.
    explicit TemporaryFile(const std::filesystem::path& target, bool nameless = true);
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile();

    int get() const { return file_.get(); }

    // Returns false if the file is unnamed and the file system cannot name it, which only shows here. Throws IoError.
    bool rename_to(const std::filesystem::path& target);

  private:
    bool link(const std::filesystem::path& target);
    Descriptor create(const std::filesystem::path& target, bool nameless);

    std::filesystem::path name_;  // declared before file_, whose creation sets it
    Descriptor file_;
};

// Waits until the file's bytes, or a directory's entries, are on the disk. Throws IoError that names `path`.
void sync_file(int fd, const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& directory);

// read(2) and write(2) at `offset`, or for writes at the descriptor's position, repeated until all bytes are done.
// Returns the number done: fewer at an error, which errno holds, or at the end of the file, with errno 0.
std::size_t read_bytes(int fd, std::span<std::byte> out, std::uint64_t offset);
std::size_t write_bytes(int fd, std::span<const std::byte> bytes, std::optional<std::uint64_t> offset = {});

inline std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace stoker
