// The variables that describe the world, and the values that are refused.
#include "stoker/dist/world.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using Variables = std::map<std::string, std::string>;
using ::testing::HasSubstr;

// Sets these variables and none of the others that read_world reads, and unsets them at the end.
class Environment {
  public:
    explicit Environment(const Variables& variables) {
        unset();
        for (const auto& [name, value] : variables) {
            setenv(name.c_str(), value.c_str(), 1);
        }
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;
    ~Environment() { unset(); }

  private:
    static void unset() {
        for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE",
                                 "TORCHELASTIC_RESTART_COUNT", "STOKER_DIST_TIMEOUT", "SLURM_STEP_NUM_TASKS",
                                 "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "LOCAL_RANK",
                                 "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
            unsetenv(name);
        }
    }
};

World read(const Variables& variables) {
    const Environment environment(variables);
    return read_world();
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "host0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

TEST(World, IsOneWithoutTheVariables) {
    EXPECT_EQ(read({}).size, 1);
    EXPECT_EQ(read({{"MASTER_ADDR", "host0"}, {"MASTER_PORT", "29500"}}).size, 1)
        << "a cluster may set these for everybody";
    EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(World, IsWhatTorchrunSays) {
    const World world = read(kTorchrun);
    EXPECT_EQ(world.rank, 3);
    EXPECT_EQ(world.size, 4);
    EXPECT_EQ(world.address, "host0");
    EXPECT_EQ(world.port, 29500);
    EXPECT_TRUE(world.has_store);
    EXPECT_EQ(world.attempt, "2");
    EXPECT_EQ(world.timeout, std::chrono::seconds(60));
    Variables by_hand = kTorchrun;
    by_hand.erase("TORCHELASTIC_USE_AGENT_STORE");
    by_hand["STOKER_DIST_TIMEOUT"] = "5";
    EXPECT_FALSE(read(by_hand).has_store) << "rank 0 keeps it";
    EXPECT_EQ(read(by_hand).timeout, std::chrono::seconds(5));
}

// Which of the host's GPUs a rank takes. A job's script may set RANK alone.
TEST(World, KnowsTheRanksOfItsHost) {
    EXPECT_EQ(read(kTorchrun).local_rank, 0);
    for (const char* name : {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
        Variables given = kTorchrun;
        given[name] = "2";
        EXPECT_EQ(read(given).local_rank, 2) << name;
        given[name] = "two";
        EXPECT_THROW(read(given), InvalidArgument) << name;
    }
}

// mpirun in a script of sbatch: each rank inherits the script's SLURM_LOCALID.
TEST(World, TheLocalRankIsOfTheLauncherThatGaveTheRank) {
    const World world = read({{"SLURM_LOCALID", "0"},
                              {"SLURM_PROCID", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                              {"MASTER_PORT", "29500"}});
    EXPECT_EQ(world.rank, 3);
    EXPECT_EQ(world.local_rank, 3);
}

const Variables kSlurm = {{"SLURM_STEP_NUM_TASKS", "6"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NODELIST", "gpu[03-05]"},
                          {"SLURM_JOB_ID", "1234"}};

TEST(World, IsWhatSlurmSays) {
    const World world = read(kSlurm);
    EXPECT_EQ(world.rank, 5);
    EXPECT_EQ(world.size, 6);
    EXPECT_EQ(world.address, "gpu03");
    EXPECT_GT(world.port, 1024);
    EXPECT_FALSE(world.has_store);
    Variables given = kSlurm;
    given["MASTER_ADDR"] = "host0";
    given["MASTER_PORT"] = "29500";
    EXPECT_EQ(read(given).address, "host0");
    EXPECT_EQ(read(given).port, 29500);
    given["RANK"] = "0";
    given["WORLD_SIZE"] = "1";
    EXPECT_EQ(read(given).size, 1) << "torchrun's come first";
}

TEST(World, OfMpiNeedsAnAddressOnSeveralHosts) {
    Variables mpi = {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    try {
        read(mpi);
        FAIL();
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[MASTER_ADDR]"));
        EXPECT_THAT(error.what(), HasSubstr("mpirun started 4 processes"));
    }
    mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
    mpi["PMIX_NAMESPACE"] = "prterun-host-17@1";
    EXPECT_EQ(read(mpi).address, "127.0.0.1");
    EXPECT_GT(read(mpi).port, 1024);
    EXPECT_EQ(read(mpi).rank, 1);
}

struct Wrong {
    std::string name;
    std::string value;  // empty: not set
};

class WorldRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(WorldRefuses, NamingTheVariable) {
    Variables variables = kTorchrun;
    const auto& [name, value] = GetParam();
    if (value.empty()) {
        variables.erase(name);
    } else {
        variables[name] = value;
    }
    try {
        read(variables);
        FAIL() << name << "=" << value << " was taken";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[" + name + "]"));
        EXPECT_THAT(error.what(), HasSubstr(value.empty() ? "got none" : "got \"" + value + "\""));
    }
}

INSTANTIATE_TEST_SUITE_P(Each, WorldRefuses,
                         ::testing::Values(Wrong{"RANK", ""}, Wrong{"RANK", "4"}, Wrong{"RANK", "-1"},
                                           Wrong{"RANK", "1x"}, Wrong{"WORLD_SIZE", ""}, Wrong{"WORLD_SIZE", "0"},
                                           Wrong{"WORLD_SIZE", "two"}, Wrong{"MASTER_ADDR", ""},
                                           Wrong{"MASTER_PORT", ""}, Wrong{"MASTER_PORT", "0"},
                                           Wrong{"MASTER_PORT", "65536"}, Wrong{"STOKER_DIST_TIMEOUT", "0"},
                                           Wrong{"STOKER_DIST_TIMEOUT", "soon"}));

}  // namespace
}  // namespace stoker
