// Signs of life: each rank counts up in the store while its process runs. In a long wait a frozen or lost rank shows
// after one time-out, and not only when the wait's own, longer time-out has passed.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace stoker {

class Heartbeat {
  public:
    // `store`: a separate connection, as a connection waits for one answer at a time. Rank 0 looks at all ranks, and
    // the others at rank 0, which ends them when it ends: else the looks at the store grow with the square of ranks.
    Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;
    ~Heartbeat();

    // "rank 3" if it has given no sign for the time-out, or "rank 0's store" if that has not answered; else empty. To
    // be called about once a second: the calls are its clock, as a process that was stopped itself knows nothing of
    // the others.
    std::string silent();

  private:
    struct Signs;
    std::shared_ptr<Signs> signs_;  // shared with the thread, which is left behind if the store never answers
};

}  // namespace stoker
