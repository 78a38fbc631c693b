// The files of many shards, of which only so many stay open as the process has descriptors to spare. The others are
// opened when they are read, and have to be what they were before.
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

// A quarter of the descriptors that the process may have, so that two data sets leave as many to others.
std::size_t spare_descriptors();

class ShardFiles {
  public:
    using Open = std::function<std::unique_ptr<ByteFile>(const std::string& name)>;

    // `most`: local files kept open at a time, at least 1. Remote ones have no descriptor and stay.
    ShardFiles(std::vector<std::string> names, Open open, std::size_t most = spare_descriptors());

    std::size_t size() const { return slots_.size(); }
    const std::string& name(std::size_t shard) const { return slots_[shard].name; }
    bool remote() const;

    // Keeps the file from being closed as long as the handle lives.
    class Handle {
      public:
        const ByteFile& operator*() const { return *file_; }
        const ByteFile* operator->() const { return file_; }
        // The file stays open as long as the ShardFiles, and with it what is mapped of it.
        bool stays() const { return kept_ == nullptr; }

      private:
        friend class ShardFiles;
        const ByteFile* file_ = nullptr;
        std::shared_ptr<const ByteFile> kept_;  // none where the file is never closed
    };

    // By many threads at once. The first opening of a shard decides what its stamp is; throws DataError where a later
    // one finds another, IoError where there is no such file.
    Handle open(std::size_t shard) const;

  private:
    struct Slot {
        std::string name;
        std::atomic<const ByteFile*> stays{nullptr};  // set where it is never closed
        std::shared_ptr<const ByteFile> file;         // this and the stamp under the mutex
        std::string stamp;
    };

    std::shared_ptr<const ByteFile> reopen(std::size_t shard) const;

    Open open_;
    std::size_t most_;
    mutable std::vector<Slot> slots_;
    mutable std::mutex mutex_;
    mutable std::deque<std::size_t> order_;  // local files that are open, the longest first
};

}  // namespace stoker
