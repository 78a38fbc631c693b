// Gives slices of a trace thread numbers on which they nest: Perfetto drops slices that overlap otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace stoker {

class TraceLanes {
  public:
    static constexpr std::int64_t kLane = 100'000'000;  // above all numbers of threads and streams

    // A number for the slice [start, end) of `thread` in `process`: `thread` itself if the slice lies within the
    // slices that are open there, or after them. Slices of one thread must come in the order of their starts, longer
    // ones first.
    std::int64_t place(std::int64_t process, std::int64_t thread, std::int64_t start, std::int64_t end) {
        for (std::int64_t number = thread;; number += kLane) {
            std::vector<std::int64_t>& ends = open_[{process, number}];
            while (!ends.empty() && ends.back() <= start) {
                ends.pop_back();
            }
            if (ends.empty() || end <= ends.back()) {
                ends.push_back(end);
                return number;
            }
        }
    }

  private:
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> open_;  // ends, outermost first
};

}  // namespace stoker
