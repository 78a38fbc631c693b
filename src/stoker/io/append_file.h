// A file that grows at its end and can be cut back to where it once was: what a writer goes on with after it was
// killed. Small pieces are gathered to spare system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "stoker/base/hash.h"

namespace stoker {

class AppendFile {
  public:
    // Keeps the first `keep` bytes of what is there, drops the rest; without a file there are none to keep. Throws
    // IoError, also where there are fewer.
    explicit AppendFile(std::filesystem::path path, std::uint64_t keep = 0);
    AppendFile(const AppendFile&) = delete;
    AppendFile& operator=(const AppendFile&) = delete;
    ~AppendFile();  // what was not synced may be missing

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const { return size_; }
    void append(std::span<const std::byte> bytes);

    // Over bytes that were appended before.
    void replace(std::uint64_t offset, std::span<const std::byte> bytes);

    // Everything appended so far reaches the disk.
    void sync();

    // XXH3 of what was appended since the last call, or since the file was opened.
    std::uint64_t take_hash();

  private:
    void cut_to(std::uint64_t size) const;
    void flush();
    void write_out(std::uint64_t offset, std::span<const std::byte> bytes);
    [[noreturn]] void fail(const char* expected) const;

    std::filesystem::path path_;
    int file_ = -1;
    std::uint64_t size_ = 0;
    std::vector<std::byte> waiting_;
    StreamHash hash_;
};

// XXH3 of a file's bytes [begin, end). Throws IoError, also where it ends before.
std::uint64_t hash_range(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end);

}  // namespace stoker
