// Work on items by many threads, taken over by the caller in the order of the items: what a writer of one
// stream needs. At most a few items per thread are ahead of the taker, which bounds the memory.
#pragma once

#include <cstdint>
#include <functional>

namespace stoker {

struct OrderedWork {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    int threads = 1;

    // Places that items are worked on in; item i uses place i % places().
    int places() const { return threads * 4; }
};

// Calls work(item, place, thread) from `threads` threads and take(item, place) on the caller's, in order of the items.
// Rethrows what `work` threw when it is that item's turn, and what `take` threw; nothing is taken after that.
void run_ordered(const OrderedWork& range, const std::function<void(std::int64_t, int, int)>& work,
                 const std::function<void(std::int64_t, int)>& take);

}  // namespace stoker
