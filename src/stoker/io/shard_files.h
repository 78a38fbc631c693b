// The files of many shards. Only as many stay open as the process has file descriptors to spare; the others are opened
// again when they are read, and must not have changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stoker/io/byte_file.h"

namespace stoker {

// A quarter of the file descriptors that the process may have: two data sets then leave half of them free.
std::size_t spare_descriptors();

class ShardFiles {
  public:
    using Open = std::function<std::unique_ptr<ByteFile>(const std::string& name)>;

    // `most`: local files kept open at the same time, at least 1. Remote files have no descriptor and stay open.
    ShardFiles(std::vector<std::string> names, Open open, std::size_t most = spare_descriptors());

    std::size_t size() const { return slots_.size(); }
    const std::string& name(std::size_t shard) const { return slots_[shard].name; }
    bool remote() const;

    // Keeps the file open while the handle exists.
    class Handle {
      public:
        const ByteFile& operator*() const { return *file_; }
        const ByteFile* operator->() const { return file_; }
        // True if the file and its map stay valid as long as the ShardFiles.
        bool stays_open() const { return kept_ == nullptr; }

      private:
        friend class ShardFiles;
        const ByteFile* file_ = nullptr;
        std::shared_ptr<const ByteFile> kept_;  // null if the file is never closed
    };

    // Thread-safe. The first opening of a shard sets its stamp. Throws IoError if a later one finds another stamp, or
    // if the file does not exist.
    Handle open(std::size_t shard) const;

  private:
    struct Slot {
        std::string name;
        std::atomic<const ByteFile*> permanent{nullptr};  // set if it is never closed
        std::shared_ptr<const ByteFile> file;             // guarded by the mutex, like the stamp
        std::string stamp;
    };

    std::shared_ptr<const ByteFile> reopen(std::size_t shard) const;

    Open open_;
    std::size_t most_;
    mutable std::vector<Slot> slots_;
    mutable std::mutex mutex_;
    mutable std::deque<std::size_t> order_;  // open local files, oldest first
};

}  // namespace stoker
