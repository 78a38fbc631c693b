// The variables of Slurm and of the launchers of MPI, and the facts that they leave open.
#include "stoker/base/cluster_rank.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using Variables = std::map<std::string, std::string>;

// Sets these variables for a while. The tests run without a launcher.
class Environment {
  public:
    explicit Environment(Variables variables) : variables_(std::move(variables)) {
        for (const auto& [name, value] : variables_) {
            setenv(name.c_str(), value.c_str(), 1);
        }
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;
    ~Environment() {
        for (const auto& [name, value] : variables_) {
            unsetenv(name.c_str());
        }
    }

  private:
    Variables variables_;
};

std::optional<ClusterRank> rank_of(const Variables& variables) {
    const Environment environment(variables);
    return cluster_rank();
}

const Variables kSlurm = {
    {"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_PROCID", "4"},       {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "2"},         {"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
    {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"},      {"SLURM_STEP_NODELIST", "n[1-3]"}};

TEST(ClusterRank, OfOneProcessIsEmpty) {
    EXPECT_FALSE(rank_of({}));
    // A batch script, and `srun --pty bash`.
    EXPECT_FALSE(rank_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}}));
    EXPECT_FALSE(rank_of({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
    EXPECT_FALSE(rank_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
}

TEST(ClusterRank, OfSlurm) {
    const auto rank = rank_of(kSlurm);
    ASSERT_TRUE(rank);
    EXPECT_STREQ(rank->launcher, "srun");
    EXPECT_EQ(rank->rank, 4);
    EXPECT_EQ(rank->size, 5);
    EXPECT_EQ(rank->local_size, 1);
    EXPECT_EQ(rank->host_cores, 8);
    EXPECT_EQ(rank->address, "n1");
    Variables other = kSlurm;
    other["SLURM_PROCID"] = "0";
    EXPECT_EQ(rank_of(other)->port, rank->port) << "all ranks of a step have one";
    other["SLURM_STEP_ID"] = "1";
    EXPECT_NE(rank_of(other)->port, rank->port) << "two steps of a job run at once";
}

TEST(ClusterRank, OfMpich) {
    const auto rank =
        rank_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
    ASSERT_TRUE(rank);
    EXPECT_STREQ(rank->launcher, "mpiexec");
    EXPECT_EQ(rank->rank, 1);
    EXPECT_EQ(rank->local_size, 2);
    EXPECT_EQ(rank->address, "");
    EXPECT_EQ(rank->port, 0);
}

// Their daemons are a step of srun with one task for each host. Ranks inherit its variables.
TEST(ClusterRank, LaunchersThatSrunStartedComeFirst) {
    Variables under = kSlurm;
    under.insert({{"OMPI_COMM_WORLD_RANK", "7"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
    EXPECT_EQ(rank_of(under)->rank, 7);
    under = kSlurm;
    under.insert({{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}});
    EXPECT_EQ(rank_of(under)->rank, 4) << "srun --mpi=pmi2 sets these itself";
    under.insert({{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
    EXPECT_EQ(rank_of(under)->rank, 6);
}

TEST(ClusterRank, AVariableThatIsNoNumberIsNamed) {
    Variables wrong = kSlurm;
    wrong["SLURM_PROCID"] = "four";
    try {
        rank_of(wrong);
        FAIL();
    } catch (const InvalidArgument& error) {
        EXPECT_NE(std::string(error.what()).find("[SLURM_PROCID]"), std::string::npos) << error.what();
    }
}

TEST(ClusterRank, FirstHostOfSlurmsList) {
    EXPECT_EQ(first_slurm_host("gpu03"), "gpu03");
    EXPECT_EQ(first_slurm_host("gpu03,gpu04"), "gpu03");
    EXPECT_EQ(first_slurm_host("gpu[03-07,11],cpu1"), "gpu03");
    EXPECT_EQ(first_slurm_host("gpu[7]"), "gpu7");
    EXPECT_EQ(first_slurm_host("rack[1-2]-a,x"), "rack1-a");
    EXPECT_EQ(first_slurm_host(""), "");
    EXPECT_EQ(first_slurm_host("gpu[1"), "");
}

TEST(ClusterRank, TasksOfANode) {
    EXPECT_EQ(slurm_tasks_of_node("4", 0), 4);
    EXPECT_EQ(slurm_tasks_of_node("4(x2),1", 0), 4);
    EXPECT_EQ(slurm_tasks_of_node("4(x2),1", 1), 4);
    EXPECT_EQ(slurm_tasks_of_node("4(x2),1", 2), 1);
    for (const char* odd : {"", "x", "4(x", "4(x)", "0", "4(xx)"}) {
        EXPECT_EQ(slurm_tasks_of_node(odd, 0), 1) << odd;
    }
}

// srun without --cpus-per-task lets the ranks of a host share its cores; with it each has its own.
TEST(ClusterRank, RanksWithCoresOfTheirOwnShareNone) {
    Variables sharing = kSlurm;
    sharing["SLURM_NODEID"] = "0";
    const int affinity = cpu_cores().affinity;
    sharing["SLURM_CPUS_ON_NODE"] = std::to_string(affinity);
    {
        const Environment environment(sharing);
        EXPECT_EQ(cpu_cores().ranks_on_host, 2);
    }
    sharing["SLURM_CPUS_ON_NODE"] = std::to_string(2 * affinity);
    const Environment environment(sharing);
    EXPECT_EQ(cpu_cores().ranks_on_host, 1);
}

// As the message about a launcher's variable advises.
TEST(ClusterRank, TorchrunsVariablesComeFirst) {
    Variables wrong = kSlurm;
    wrong["SLURM_PROCID"] = "four";
    wrong["LOCAL_WORLD_SIZE"] = "3";
    const Environment environment(wrong);
    EXPECT_EQ(cpu_cores().ranks_on_host, 3);
}

}  // namespace
}  // namespace stoker
