// The thread team: every member works once per run, no member passes a barrier early, and sleeping threads wake up.
#include "stoker/fused/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "stoker/base/error.h"

namespace stoker {
namespace {

TEST(Team, MeetsAtBarriers) {
    for (const int size : {1, 2, 3, 5}) {
        Team team(size);
        ASSERT_EQ(team.size(), size);
        std::vector<int> written(static_cast<std::size_t>(size));
        for (int round = 1; round <= 200; ++round) {
            std::vector<int> sums(static_cast<std::size_t>(size));
            team.run([&](int member) {
                written[static_cast<std::size_t>(member)] = round;
                team.barrier();
                sums[static_cast<std::size_t>(member)] = std::accumulate(written.begin(), written.end(), 0);
                team.barrier();
            });
            ASSERT_EQ(sums, std::vector<int>(static_cast<std::size_t>(size), round * size));
        }
    }
}

TEST(Team, WakesUpAfterAPause) {
    Team team(3);
    for (int round = 0; round < 5; ++round) {
        std::atomic<int> done = 0;
        team.run([&](int member) {
            if (member == 1) {  // the others sleep at the barrier
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            team.barrier();
            ++done;
        });
        EXPECT_EQ(done, 3);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

TEST(Team, NeedsAMember) {
    EXPECT_THROW(Team(0), InvalidArgument);
}

}  // namespace
}  // namespace stoker
