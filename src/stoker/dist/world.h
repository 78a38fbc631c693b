// Which of how many processes this is, and where they meet: what torchrun tells by the environment.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace stoker {

struct World {
    int rank = 0;
    int size = 1;
    std::string address = {};
    int port = 0;
    bool has_store = false;    // torchrun keeps the store there; else rank 0 does
    std::string attempt = {};  // of torchrun's, where it starts ranks that failed again
    // How long one rank waits for another in a step. At the start and at checkpoints, where one may have much more to
    // do than another, it is ten times that.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

using Environment = std::function<const char*(const char* name)>;

// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STOKER_DIST_TIMEOUT (seconds); a world of one where RANK
// and WORLD_SIZE are not set. Throws InvalidArgument where they do not fit each other, or some are missing.
World read_world();
World read_world(const Environment& environment);

}  // namespace stoker
