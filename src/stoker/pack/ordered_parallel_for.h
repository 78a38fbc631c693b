// Processes items on many threads and hands the results to the caller in the order of the items, as a writer of one
// stream needs them. The threads are at most a few items ahead of the caller, which bounds the memory.
#pragma once

#include <cstdint>
#include <functional>

namespace stoker {

struct OrderedRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    int threads = 1;

    // Number of result slots; item i uses slot i % slots().
    int slots() const { return threads * 4; }
};

// Calls produce(item, slot, thread) on `threads` threads and consume(item, slot) on the caller's thread, in the order
// of the items. Rethrows an exception of `produce` when that item is due, and one of `consume` at once; no further item
// is consumed. Throws InvalidArgument for less than one thread, IoError if threads cannot be started.
void ordered_parallel_for(const OrderedRange& range, const std::function<void(std::int64_t, int, int)>& produce,
                          const std::function<void(std::int64_t, int)>& consume);

}  // namespace stoker
