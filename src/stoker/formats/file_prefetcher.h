// Brings announced files of a folder into the page cache before they are read. A file's data can be requested without
// waiting, but its name and inode cannot be looked up without waiting, so threads do that, many files at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace stoker {

// Idle until a reader has to wait for a file: then the following files are probably not in memory either. Idle again
// once kIdleAfter files in a row were in memory. Thread-safe; does nothing in a forked child.
class FilePrefetcher {
  public:
    // `fetch(index)` requests one file and returns whether it was in memory already. Must not throw.
    explicit FilePrefetcher(std::function<bool(std::int64_t)> fetch);
    FilePrefetcher(const FilePrefetcher&) = delete;
    FilePrefetcher& operator=(const FilePrefetcher&) = delete;
    ~FilePrefetcher();

    // A reader had to wait for a file.
    void report_wait();

    // The files that are read next. Returns at once.
    void announce(std::span<const std::int64_t> indices);

    static constexpr std::size_t kThreads = 16;
    static constexpr std::int64_t kIdleAfter = 4096;
    static constexpr std::size_t kMaxQueued = 16'384;  // the oldest are dropped
    static constexpr std::size_t kKeptWhenIdle = 4;    // announcements that stay queued while idle

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stoker
