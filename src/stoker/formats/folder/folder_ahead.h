// Files of a folder that are not in memory, asked for before anyone waits for them. A file's bytes can be asked for
// without waiting, the way to them, name and inode, cannot: so threads of its own wait for that, many at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace stoker {

class FolderAhead {
  public:
    // `fetch(index)` asks for one file; false where it was not in memory. Must not throw.
    explicit FolderAhead(std::function<bool(std::int64_t)> fetch);
    FolderAhead(const FolderAhead&) = delete;
    FolderAhead& operator=(const FolderAhead&) = delete;
    ~FolderAhead();

    // A reader had to wait for a file: the next ones are probably not in memory either.
    void waited();

    // What is read soon; returns at once. Nothing is asked for as long as nobody has to wait.
    void announce(std::span<const std::int64_t> indices);

    static constexpr std::size_t kThreads = 16;
    static constexpr std::int64_t kTries = 4096;         // files in a row that were in memory, before the asking ends
    static constexpr std::size_t kMostWaiting = 16'384;  // beyond that the oldest are dropped
    static constexpr std::size_t kKept = 4;              // announcements, while nobody waits

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stoker
