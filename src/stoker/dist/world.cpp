// An invalid variable is refused by name.
#include "stoker/dist/world.h"

#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/cluster_rank.h"
#include "stoker/base/environment.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kMostPorts = 65535;

[[noreturn]] void refuse(const char* name, const std::string& expected, const std::string& got,
                         const std::optional<ClusterRank>& cluster = {}) {
    throw InvalidArgument(
        {.where = name,
         .expected = expected,
         .got = got.empty() ? "none" : "\"" + got + "\"",
         .hint = cluster ? fmt::format("{} started {} processes: pass them the same MASTER_ADDR and MASTER_PORT",
                                       cluster->launcher, cluster->size)
                         : "`stoker launch` sets all variables; without RANK and WORLD_SIZE one process trains alone"});
}

// In [least, most].
int number(const char* name, int least, int most, const std::optional<ClusterRank>& cluster = {}) {
    const std::string given = environment_variable(name);
    int value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (given.empty() || error != std::errc{} || end != given.data() + given.size() || value < least || value > most) {
        refuse(name, fmt::format("a number from {} to {}", least, most), given, cluster);
    }
    return value;
}

// Among the ranks of this host, as the launcher of the ranks, or of the job around it, says.
int local_rank() {
    for (const char* name : {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
        if (!environment_variable(name).empty()) {
            return number(name, 0, kMostRanks);
        }
    }
    return 0;
}

}  // namespace

World read_world() {
    World world;
    std::optional<ClusterRank> cluster;
    if (environment_variable("RANK").empty() && environment_variable("WORLD_SIZE").empty()) {
        cluster = cluster_rank();
        if (!cluster) {
            return world;
        }
        world.size = cluster->size;
        world.rank = cluster->rank;
    } else {
        world.size = number("WORLD_SIZE", 1, kMostRanks);
        world.rank = number("RANK", 0, world.size - 1);
    }
    if (constexpr const char* kTimeout = "STOKER_DIST_TIMEOUT"; !environment_variable(kTimeout).empty()) {
        constexpr int kDay = 24 * 60 * 60;
        world.timeout = std::chrono::seconds(number(kTimeout, 1, kDay));
    }
    if (world.size == 1) {
        return world;
    }
    const bool by_launcher = cluster && environment_variable("LOCAL_RANK").empty();  // that may run in another's job
    world.local_rank = by_launcher ? cluster->local_rank : local_rank();
    world.address = environment_variable("MASTER_ADDR");
    if (world.address.empty() && cluster) {
        world.address = cluster->address;
    }
    if (world.address.empty()) {
        refuse("MASTER_ADDR", "the host of rank 0", "", cluster);
    }
    const bool port_known = environment_variable("MASTER_PORT").empty() && cluster && cluster->port > 0;
    world.port = port_known ? cluster->port : number("MASTER_PORT", 1, kMostPorts, cluster);
    world.has_store = environment_variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
    world.attempt = environment_variable("TORCHELASTIC_RESTART_COUNT");
    return world;
}

}  // namespace stoker
