// Rank, world size and rendezvous address, which torchrun, Slurm or an MPI launcher pass in the environment.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace stoker {

struct World {
    int rank = 0;
    int size = 1;
    int local_rank = 0;  // among the ranks of this host; 0 where the launcher does not say
    std::string address = {};
    int port = 0;
    bool has_store = false;    // true: torchrun hosts the store at that address; false: rank 0 does
    std::string attempt = {};  // torchrun's restart count
    // Time-out of a collective in a step. At the start and at checkpoints, when one rank may have much more work than
    // another, it is ten times as long.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    // Gets a line when the start has waited for others for some seconds.
    std::function<void(const std::string& line)> on_wait = {};
};

// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STOKER_DIST_TIMEOUT (seconds). Without RANK and WORLD_SIZE the
// variables of srun, mpirun and mpiexec count (cluster_rank.h), and without those the world has one rank. Throws
// InvalidArgument, naming the variable, if one is missing or invalid.
World read_world();

}  // namespace stoker
