// Slurm names everything. The launchers of MPI name rank and size, and the hosts only if all ranks are on this one.
#include "stoker/base/cluster_rank.h"

#include <cstdint>
#include <sstream>

#include "stoker/base/environment.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

constexpr int kFirstPort = 20'000;
constexpr int kPorts = 10'000;  // below those that the system gives to clients

// 0 or more; `otherwise` for a variable that is not set.
int number(const char* name, int otherwise) {
    const std::string given = environment_variable(name);
    if (given.empty()) {
        return otherwise;
    }
    const auto value = parse_number<int>(given);
    if (!value || *value < 0) {
        throw InvalidArgument(
            {.where = name,
             .expected = "a number, as the launcher of the job sets it",
             .got = "\"" + given + "\"",
             .hint = "set RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which come first"});
    }
    return *value;
}

int port_of(const std::string& job) {
    return kFirstPort + static_cast<int>(hash_text(job) % kPorts);
}

// The variables of a step, which srun sets; a batch script has those of the job alone, and is one process.
std::optional<ClusterRank> of_slurm() {
    const int size = number("SLURM_STEP_NUM_TASKS", 1);
    if (size < 2 || environment_variable("SLURM_PROCID").empty()) {
        return std::nullopt;
    }
    const std::string step_nodes = environment_variable("SLURM_STEP_NODELIST");
    return ClusterRank{
        .launcher = "srun",
        .rank = number("SLURM_PROCID", 0),
        .size = size,
        .local_rank = number("SLURM_LOCALID", 0),
        .local_size = slurm_tasks_of_node(environment_variable("SLURM_STEP_TASKS_PER_NODE"), number("SLURM_NODEID", 0)),
        .host_cores = number("SLURM_CPUS_ON_NODE", 0),
        .address = first_slurm_host(step_nodes.empty() ? environment_variable("SLURM_JOB_NODELIST") : step_nodes),
        .port = port_of(environment_variable("SLURM_JOB_ID") + "." + environment_variable("SLURM_STEP_ID"))};
}

std::optional<ClusterRank> of_mpi(const char* launcher, const char* rank, const char* size, const char* local_rank,
                                  const char* local_size) {
    ClusterRank found{.launcher = launcher,
                      .rank = number(rank, 0),
                      .size = number(size, 1),
                      .local_rank = number(local_rank, 0),
                      .local_size = number(local_size, 1)};
    if (found.size < 2) {
        return std::nullopt;
    }
    if (found.local_size == found.size) {
        found.address = "127.0.0.1";
    }
    if (const std::string job = environment_variable("PMIX_NAMESPACE"); !job.empty()) {
        found.port = port_of(job);
    }
    return found;
}

}  // namespace

// The launcher that started this process, not one around it: mpirun and mpiexec start their daemons with srun, whose
// variables the ranks inherit. srun may also set PMI_RANK, but not MPI_LOCALRANKID.
std::optional<ClusterRank> cluster_rank() {
    if (auto open_mpi = of_mpi("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                               "OMPI_COMM_WORLD_LOCAL_SIZE")) {
        return open_mpi;
    }
    auto slurm = of_slurm();
    if (slurm && environment_variable("MPI_LOCALRANKID").empty()) {
        return slurm;
    }
    auto hydra = of_mpi("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
    return hydra ? hydra : slurm;
}

std::string first_slurm_host(const std::string& nodes) {
    const std::size_t bracket = nodes.find_first_of(",[");
    if (bracket == std::string::npos || nodes[bracket] == ',') {
        return nodes.substr(0, bracket);
    }
    const std::size_t end = nodes.find_first_of("-,]", bracket);
    const std::size_t close = nodes.find(']', bracket);
    if (close == std::string::npos) {
        return "";
    }
    const std::string first = nodes.substr(bracket + 1, end - bracket - 1);
    const std::string rest = nodes.substr(close + 1, nodes.find(',', close) - close - 1);
    return nodes.substr(0, bracket) + first + rest;
}

int slurm_tasks_of_node(const std::string& tasks, int node) {
    std::istringstream groups(tasks);
    for (std::string group; std::getline(groups, group, ',');) {
        const std::size_t times = group.find("(x");
        const auto count = parse_number<int>(group.substr(0, times));
        const std::optional<int> nodes =
            times == std::string::npos ? 1 : parse_number<int>(group.substr(times + 2, group.size() - times - 3));
        if (!count || !nodes || *count < 1 || *nodes < 1) {
            return 1;
        }
        if (node < *nodes) {
            return *count;
        }
        node -= *nodes;
    }
    return 1;
}

}  // namespace stoker
