// The Python side of a benchmark: a script of bench/peers that runs in a child process and prints one JSON object.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace stoker::cli {

struct PythonPeer {
    std::string script;
    std::string python = ".venv/bin/python";
};

// Throws IoError if the script is missing; `option` is the option that the hint tells the user to pass.
void require_peer_script(const std::string& script, const std::string& option);

// Throws IoError if the interpreter or the script is missing.
void check_python_peer(const PythonPeer& peer);

// Runs the script with `arguments` and returns the JSON object that it prints. Throws Error if the script fails or
// prints anything else, and terminates it once `stop` is not 0.
nlohmann::json run_python_peer(const PythonPeer& peer, const std::vector<std::string>& arguments,
                               const std::atomic<int>& stop);

}  // namespace stoker::cli
