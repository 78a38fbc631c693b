// Signs of life over a store in memory: who is named, and who is not.
#include "stoker/dist/heartbeat.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>

namespace stoker {
namespace {

using std::chrono::milliseconds;

// What silent() says first within `most`.
std::string first_silent(Heartbeat& heartbeat, milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (std::chrono::steady_clock::now() < until) {
        if (std::string silent = heartbeat.silent(); !silent.empty()) {
            return silent;
        }
        std::this_thread::sleep_for(milliseconds(20));
    }
    return "";
}

TEST(Heartbeat, NamesTheRankThatGivesNoSign) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    Heartbeat first(store, 0, 3, milliseconds(300));
    const Heartbeat second(store, 1, 3, milliseconds(300));
    EXPECT_EQ(first_silent(first, milliseconds(20'000)), "rank 2");
}

TEST(Heartbeat, NamesNobodyWhileAllGiveSigns) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    Heartbeat first(store, 0, 2, milliseconds(400));
    Heartbeat second(store, 1, 2, milliseconds(400));
    EXPECT_EQ(first_silent(first, milliseconds(1500)), "");
    EXPECT_EQ(first_silent(second, milliseconds(500)), "");
}

TEST(Heartbeat, ARankThatEndedIsSilent) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    auto first = std::make_unique<Heartbeat>(store, 0, 2, milliseconds(300));
    Heartbeat second(store, 1, 2, milliseconds(300));
    EXPECT_EQ(first_silent(second, milliseconds(600)), "");
    first.reset();
    EXPECT_EQ(first_silent(second, milliseconds(20'000)), "rank 0");
}

TEST(Heartbeat, AStoreThatFailsIsNamed) {
    struct Failing : c10d::HashStore {
        std::int64_t add(const std::string& /*key*/, std::int64_t /*value*/) override {
            C10_THROW_ERROR(DistNetworkError, "gone");
        }
    };
    Heartbeat heartbeat(c10::make_intrusive<Failing>(), 1, 2, milliseconds(200));
    EXPECT_EQ(first_silent(heartbeat, milliseconds(20'000)), "rank 0's store");
}

}  // namespace
}  // namespace stoker
