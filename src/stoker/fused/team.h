// A team of threads with barriers every few microseconds. Waiting threads spin briefly, then yield, then sleep, because
// loader threads need the same cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace stoker {

class Team {
  public:
    // `size`, at least 1, includes the thread that calls run.
    explicit Team(int size);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    // Calls work(member) concurrently for members 0 (on the calling thread) to size - 1, and returns when all are done.
    // `work` must not throw. One caller at a time.
    void run(const std::function<void(int)>& work);

    // Called within `work` by all members: waits until all have arrived.
    void barrier();

  private:
    void worker_loop(int member);
    void stop();

    const std::function<void(int)>* work_ = nullptr;  // null: threads end
    std::atomic<std::uint32_t> begun_ = 0;            // counts calls of run
    std::atomic<int> arrived_ = 0;
    std::atomic<std::uint32_t> passed_ = 0;  // counts barriers
    std::vector<std::thread> threads_;
};

}  // namespace stoker
