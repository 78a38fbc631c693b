// `stoker bench pipeline --peers`: hands over to the script that makes the peers' environments and runs them in
// turn with this program. It is Python because all of the peers are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stoker::cli {

struct PeersProgram {
    std::string python = "python3";
    std::string script = "bench/peers/pipeline/compare.py";
    std::vector<std::string> only;  // empty: all
    std::string plot;               // empty: none
};

struct PeersRun {
    std::string data;
    int size = 224;
    std::optional<int> workers;  // empty: 1 and 2
    std::int64_t batch = 64;
    int rounds = 3;
    std::int64_t batches = 100;
    bool json = false;
};

// Goes on as the script. Throws IoError where it cannot be started, saying what to pass.
[[noreturn]] void compare_with_peers(const PeersProgram& program, const PeersRun& run);

}  // namespace stoker::cli
