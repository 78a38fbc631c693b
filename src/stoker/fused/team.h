// A few threads that work on one thing together and meet at barriers every few microseconds: they spin for a moment,
// then give the core away, then sleep, because loader threads want the same cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace stoker {

class Team {
  public:
    // `size` of at least 1 counts the thread that calls run.
    explicit Team(int size);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    // Calls work(member) for members 0 (on the calling thread) to size - 1 at once, and returns when all are done.
    // `work` must not throw. One caller at a time.
    void run(const std::function<void(int)>& work);

    // Within work: nobody leaves before everybody has come.
    void barrier();

  private:
    void serve(int member);
    void stop();

    const std::function<void(int)>* work_ = nullptr;  // null: the end
    std::atomic<std::uint32_t> begun_ = 0;            // counts calls of run
    std::atomic<int> arrived_ = 0;
    std::atomic<std::uint32_t> passed_ = 0;  // counts barriers
    std::vector<std::thread> threads_;
};

}  // namespace stoker
