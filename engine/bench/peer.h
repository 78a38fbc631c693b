// Python PyTorch as the peer of a benchmark: an interpreter and a script of bench/peers, one child process a run.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stoker::cli {

struct Peer {
    std::string script;
    std::string python = ".venv/bin/python";
};

// Throws IoError where there is no interpreter or no script, saying what to pass.
void check_peer(const Peer& peer);

// The JSON object that the script prints, given `arguments`. Throws Error where it fails or prints anything else, and
// ends it once `stop` is not 0.
nlohmann::json ask_peer(const Peer& peer, const std::vector<std::string>& arguments, const std::atomic<int>& stop);

}  // namespace stoker::cli
