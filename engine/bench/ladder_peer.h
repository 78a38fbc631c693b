// The ladder's peer: the same experiment in plain Python PyTorch, one child process a rung.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/bench/peer.h"

namespace stoker::cli {

struct PeerRun {
    std::string rung;
    std::string data;  // a directory of IDX files
    std::string device;
    std::int64_t epochs = 0;
    std::uint64_t seed = 0;
};

struct PeerFigures {
    double seconds = 0;  // of all epochs
    double accuracy = 0;
};

// The names of its rungs, from one process that loads the data to all of it in memory.
const std::vector<std::string>& peer_rungs();

// Throws Error where the script fails, and ends it once `stop` is not 0.
PeerFigures run_peer(const Peer& peer, const PeerRun& run, const std::atomic<int>& stop);

// Data as both sides can read it: an IDX directory as it is, synth:digits as files in a folder of their own
// that goes with this object. Throws InvalidArgument for other data.
class SharedData {
  public:
    explicit SharedData(const std::string& data);
    SharedData(const SharedData&) = delete;
    SharedData& operator=(const SharedData&) = delete;
    ~SharedData();

    const std::string& path() const { return path_; }

  private:
    void write(const std::string& data);

    std::string path_;
    std::filesystem::path made_;  // empty: nothing was
};

}  // namespace stoker::cli
