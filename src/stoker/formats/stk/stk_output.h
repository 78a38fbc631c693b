// A file that is written piece by piece and appears under its name only when it is whole: a temporary
// name beside it, then fsync, rename, fsync of the directory. base/file.h does the same for bytes at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace stoker {

class StkOutput {
  public:
    // The caller holds the directory's lock, so a file under the temporary name is a dead process's.
    explicit StkOutput(std::filesystem::path target);
    StkOutput(const StkOutput&) = delete;
    StkOutput& operator=(const StkOutput&) = delete;
    ~StkOutput();  // removes what was not committed

    std::uint64_t size() const { return size_; }
    void append(std::span<const std::byte> bytes);
    void pad();  // with zeros to a multiple of kStkAlignment
    void commit();

    // True for the temporary name of a shard or a manifest, whatever process gave it.
    static bool is_temporary(const std::filesystem::path& path);

  private:
    void flush();
    void write_out(std::span<const std::byte> bytes);
    [[noreturn]] void fail(const char* expected) const;

    std::filesystem::path target_;
    std::filesystem::path temporary_;
    int file_ = -1;
    std::uint64_t size_ = 0;
    std::vector<std::byte> waiting_;  // small pieces, gathered to spare system calls
};

}  // namespace stoker
