// Whether anybody else wants the cores just now: other jobs, or a container's quota.
#pragma once

namespace stoker::cli {

// Takes 10 ms: a thread for each core that this process may use counts what it gets of them.
bool cores_are_free();

}  // namespace stoker::cli
