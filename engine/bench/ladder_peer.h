// The Python side of the ladder: the same experiment in plain Python PyTorch, one child process per rung.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/python_peer.h"
#include "cli/terminal/temp_folder.h"

namespace stoker::cli {

struct PeerRun {
    std::string rung;
    std::string data;  // a directory of IDX files
    std::string device;
    std::int64_t epochs = 0;
    std::uint64_t seed = 0;
};

struct PeerResult {
    double seconds = 0;  // of all epochs
    double accuracy = 0;
};

// The names of the rungs, from data loading in one process to all data in memory.
const std::vector<std::string>& peer_rungs();

// Throws Error if the script fails, and terminates it once `stop` is not 0.
PeerResult run_peer_rung(const PythonPeer& peer, const PeerRun& run, const std::atomic<int>& stop);

// Data that Stoker and the Python script can both read: an IDX directory is used in place, synth:digits is written to a
// temporary folder. Throws InvalidArgument for other data.
class LadderData {
  public:
    explicit LadderData(const std::string& data);

    const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::optional<TempFolder> temporary_;  // empty for an IDX directory
};

}  // namespace stoker::cli
