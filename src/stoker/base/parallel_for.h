// One-off parallel work over a range of indices, such as drawing a data set or verifying files.
#pragma once

#include <cstdint>
#include <functional>

namespace stoker {

// Calls work(begin, end) over consecutive pieces of [0, count), each of at most `grain` indices, on at most `threads`
// threads, and returns when all pieces are done. The calling thread is one of them; if the system refuses further
// threads, fewer do the work. Rethrows the failure with the lowest index. Pieces after a failed one are skipped unless
// they have begun.
void parallel_for(int threads, std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace stoker
