// Messages between ranks, and how the others notice that one of them is gone.
#include "stoker/dist/group.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <barrier>
#include <stdexcept>

#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Group, OfOneGivesBackWhatItWasGiven) {
    Group group;
    std::array values = {1.5, 2.0};
    group.all_reduce(values);
    EXPECT_THAT(values, ElementsAre(1.5, 2.0));
    EXPECT_EQ(group.broadcast("text"), "text");
    EXPECT_THAT(group.all_gather("text"), ElementsAre("text"));
    EXPECT_EQ(group.delayed_max(15), 15) << "nobody else to wait for";
    EXPECT_TRUE(group.leave("why"));
    group.barrier();
}

TEST(Group, SumsGathersAndShares) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             std::array values = {1.0 + group->rank(), 10.0};
                             group->all_reduce(values);
                             EXPECT_THAT(values, ElementsAre(6.0, 30.0));
                             EXPECT_THAT(group->all_gather(std::string(static_cast<std::size_t>(group->rank()), 'x')),
                                         ElementsAre("", "x", "xx"));
                             EXPECT_THAT(group->all_gather(std::string()), ElementsAre("", "", ""));
                             EXPECT_EQ(group->broadcast(group->first() ? "rank 0's" : "another"), "rank 0's");
                             const at::Tensor gathered = group->all_gather(at::full({2}, group->rank(), at::kLong));
                             EXPECT_EQ(gathered.sizes(), (std::vector<std::int64_t>{3, 2}));
                             EXPECT_EQ(gathered[2][1].item<std::int64_t>(), 2);
                         }),
                Each(""));
}

TEST(Group, SharesTensorsOfAnyKind) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             const auto fill = static_cast<double>(1 + group->rank());
                             std::vector<at::Tensor> tensors = {at::full({3, 2}, fill), at::full({}, fill, at::kLong),
                                                                at::full({5}, fill, at::kDouble)};
                             tensors[0].requires_grad_(true);
                             group->broadcast(tensors);
                             for (const at::Tensor& tensor : tensors) {
                                 EXPECT_TRUE(tensor.detach().eq(1).all().template item<bool>());
                             }
                         }),
                Each(""));
}

TEST(Group, ExchangesWithNeighbours) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             const int rank = group->rank();
                             const at::Tensor mine = at::full({2, 3}, rank).t();  // not contiguous
                             const at::Tensor got = group->exchange(mine, (rank + 1) % 3, (rank + 2) % 3);
                             EXPECT_TRUE(at::equal(got, at::full({3, 2}, (rank + 2) % 3)));
                             EXPECT_TRUE(group->exchange(mine, rank, rank).is_same(mine));
                             const at::Tensor sum = at::full({2}, 1.0 + rank, at::kDouble);
                             group->all_reduce(sum);
                             EXPECT_TRUE(at::equal(sum, at::full({2}, 6.0, at::kDouble)));
                         }),
                Each(""));
}

// Both ranks send before they receive: a send does not block.
TEST(Group, MessagesArriveInOrder) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             const int other = 1 - group->rank();
                             std::vector<std::function<void()>> sending;
                             for (int message = 0; message < 3; ++message) {
                                 sending.push_back(
                                     group->start_send(at::full({1 + message}, 10 * message + group->rank()), other));
                             }
                             for (int message = 0; message < 3; ++message) {
                                 const at::Tensor got = at::full({1 + message}, -1);
                                 group->start_receive(got, other)();
                                 EXPECT_TRUE(at::equal(got, at::full({1 + message}, 10 * message + other)));
                             }
                             for (const auto& wait : sending) {
                                 wait();
                             }
                         }),
                Each(""));
}

TEST(Group, AMessageFromALostRankIsAnError) {
    const auto errors = as_ranks(2, [](const auto& group) {
        if (group->rank() == 0) {
            group->start_receive(at::full({2}, 0), 1)();
        }
    });
    EXPECT_THAT(errors, ElementsAre(HasSubstr("[rank 0] expected all 2 ranks to continue"), ""));
}

// Each rank learns at its next call what any said at the last.
TEST(Group, AgreesOneCallLater) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             EXPECT_EQ(group->delayed_max(group->rank() == 1 ? 15 : 0), 0);
                             EXPECT_EQ(group->delayed_max(0), 15);
                             EXPECT_EQ(group->delayed_max(0), 0);
                         }),
                Each(""));
}

TEST(Group, ALostRankIsNoticedAtOnce) {
    const auto errors = as_ranks(2, [](const auto& group) {
        std::array value = {1.0};
        group->all_reduce(value);
        if (group->rank() == 1) {
            return;  // its connections close
        }
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_THROW(group->all_reduce(value), RankLost);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
        group->all_reduce(value);
    });
    EXPECT_THAT(errors[0],
                HasSubstr("[rank 0] expected all 2 ranks to continue, got a connection that another rank closed"));
    EXPECT_EQ(errors[1], "");
}

TEST(Group, ASilentRankIsLeftAfterTheTimeout) {
    std::atomic<bool> left = false;
    const auto errors = as_ranks(
        2,
        [&](const auto& group) {
            std::array value = {1.0};
            while (group->rank() == 1 && !left) {
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
            try {
                group->all_reduce(value);
            } catch (...) {
                left = true;
                throw;
            }
        },
        std::chrono::seconds(1));
    EXPECT_THAT(errors[0], HasSubstr("no answer from another rank for 1 s; STOKER_DIST_TIMEOUT=SECONDS waits longer"));
}

TEST(Group, RanksThatDoNotComeAreAnError) {
    const World world{
        .size = 2, .address = "127.0.0.1", .port = testing::free_port(), .timeout = std::chrono::milliseconds(50)};
    try {
        const Group group(world);
        FAIL() << "one is not two";
    } catch (const RankLost& error) {
        EXPECT_THAT(error.what(), HasSubstr("[rank 0] expected all 2 ranks to connect to 127.0.0.1:"));
    }
}

TEST(Group, VotesOfBeforeCanBeForgotten) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             group->delayed_max(15);
                             group->reset_delayed_max();
                             EXPECT_EQ(group->delayed_max(0), 0);
                             EXPECT_EQ(group->delayed_max(0), 0);
                         }),
                Each(""));
}

TEST(Group, WhyARankLeavesIsSaidOnce) {
    std::atomic<int> said = 0;
    as_ranks(3, [&](const auto& group) { said += group->leave("the same on all ranks") ? 1 : 0; });
    EXPECT_EQ(said, 1);
}

// Whichever it is, also the one that keeps the store: at once, and with the reason.
TEST(Group, ARankThatLeavesIsMissed) {
    for (const int leaver : {0, 1}) {
        const auto errors = as_ranks(3, [&](const auto& group) {
            std::array value = {1.0};
            group->all_reduce(value);
            const auto begin = std::chrono::steady_clock::now();
            if (group->rank() == leaver) {
                EXPECT_TRUE(group->leave("bad data"));
                EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1800))
                    << "goes when all others have gone";
                return;
            }
            try {
                group->all_reduce(value);
            } catch (const RankLost&) {
                EXPECT_TRUE(group->leave(""));
                throw;
            }
        });
        EXPECT_THAT(errors[2], HasSubstr("got rank " + std::to_string(leaver) + " left"));
        EXPECT_THAT(errors[1 - leaver], HasSubstr("got rank " + std::to_string(leaver) + " left"));
    }
}

TEST(Group, IsWholeForEveryRankBeforeAnyGoesOn) {
    for (int i = 0; i < 5; ++i) {
        EXPECT_THAT(as_ranks(16, [](const auto&) {}), Each(""))
            << "the first to leave ended what the last was connecting";
    }
}

TEST(Group, WhatRanksHaveToldOutlivesThem) {
    std::vector<std::string> told;
    as_ranks(3, [&](const auto& group) {
        std::array value = {1.0};
        if (group->rank() == 1) {
            group->post_message("of rank 1");
            group->leave("bad data");
            return;
        }
        EXPECT_THROW(group->all_reduce(value), RankLost);
        if (group->first()) {
            told = group->messages();
        }
        group->leave("");
    });
    EXPECT_THAT(told, ElementsAre("", "of rank 1", ""));
}

// Words that are neither a lost connection nor a time-out are shown unchanged, and other errors left alone. No rank
// closes its connections while the other one still makes them.
TEST(Group, KeepsTheWordsOfWhatItDoesNotKnow) {
    const auto with = [](const std::string& words) {
        std::barrier both(2);
        return as_ranks(2, [&](const auto& group) {
            both.arrive_and_wait();
            group->guard([&] { throw std::runtime_error(words); });
        })[0];
    };
    EXPECT_THAT(with("[gloo/x.cc:7] an odd state"), HasSubstr("to continue, got [gloo/x.cc:7] an odd state"));
    EXPECT_EQ(with("a model's own trouble"), "a model's own trouble");
}

}  // namespace
}  // namespace stoker
