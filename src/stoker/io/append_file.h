// A file that grows at its end and can be cut back to an earlier size, so that a writer can resume after it was killed.
// Small pieces are buffered to save system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/base/hash.h"

namespace stoker {

class AppendFile {
  public:
    // Opens or creates the file and cuts it to its first `keep` bytes. Throws IoError, also if it has fewer.
    explicit AppendFile(std::filesystem::path path, std::uint64_t keep = 0);
    AppendFile(const AppendFile&) = delete;
    AppendFile& operator=(const AppendFile&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const { return size_; }
    void append(std::span<const std::byte> bytes);  // the destructor drops buffered bytes that were not synced

    // Overwrites bytes that were appended before.
    void replace(std::uint64_t offset, std::span<const std::byte> bytes);

    // Returns when everything appended so far is on the disk.
    void sync();

    // XXH3 of the bytes appended since the last call, or since the file was opened.
    std::uint64_t take_hash();

  private:
    void flush();
    void write_out(std::uint64_t offset, std::span<const std::byte> bytes);

    std::filesystem::path path_;
    Descriptor file_;
    std::uint64_t size_ = 0;
    std::vector<std::byte> buffered_;
    StreamHash hash_;
};

// XXH3 of a file's bytes [begin, end). Throws IoError, also if the file ends before.
std::uint64_t hash_range(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end);

}  // namespace stoker
