// This process's rank among several, if the cluster's launcher started it: srun of Slurm, mpirun of Open MPI, or
// mpiexec of MPICH and Intel MPI. torchrun's variables, which come first, are read elsewhere.
#pragma once

#include <optional>
#include <string>

namespace stoker {

struct ClusterRank {
    const char* launcher = "";  // "srun", "mpirun" or "mpiexec"
    int rank = 0;
    int size = 1;  // more than 1
    int local_rank = 0;
    int local_size = 1;        // ranks on this host; 1 where the launcher does not say
    int host_cores = 0;        // of the job on this host; 0 where the launcher does not say
    std::string address = {};  // the host of rank 0; empty if the launcher does not say
    int port = 0;              // the same for all ranks of a job; 0 where the launcher does not say
};

// Empty for a process that was started alone. Throws InvalidArgument for a variable that is not a number.
std::optional<ClusterRank> cluster_rank();

// The first host of Slurm's list: "gpu03" of "gpu[03-07,11],cpu1".
std::string first_slurm_host(const std::string& nodes);

// Of Slurm's "4(x2),1": how many tasks the node of this index has. 1 for a text that does not say.
int slurm_tasks_of_node(const std::string& tasks, int node);

}  // namespace stoker
