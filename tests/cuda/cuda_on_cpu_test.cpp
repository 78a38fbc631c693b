// The layer that runs kernels on the CPU: blocks, threads and warps work together as on a GPU, and planted mistakes are
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "cuda/layer_kernels.h"
#include "stoker/base/rng.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker::testing {
namespace {

using on_cpu::every_order;
using on_cpu::KernelFault;

std::vector<int> numbers(std::size_t count, int below = 1000) {
    std::vector<int> values(count);
    Rng rng({.seed = 1});
    for (int& value : values) {
        value = static_cast<int>(rng.below(below));
    }
    return values;
}

std::vector<int> sums_of(const std::vector<int>& values, std::size_t each) {
    std::vector<int> sums;
    for (std::size_t i = 0; i < values.size(); i += each) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(i);
        sums.push_back(std::accumulate(first, first + static_cast<std::ptrdiff_t>(each), 0));
    }
    return sums;
}

// The results of every order.
std::set<std::vector<int>> block_sums_of(const std::vector<int>& values, bool forgetful) {
    std::set<std::vector<int>> results;
    every_order([&] {
        GuardedArray<int> in(values);
        GuardedArray<int> out(values.size() / 128);
        block_sums(in.data(), static_cast<int>(out.size()), out.data(), forgetful);
        results.insert(out.values());
    });
    return results;
}

TEST(KernelsOnCpu, BlocksShareMemoryBetweenBarriers) {
    const std::vector<int> values = numbers(5 * 128);
    EXPECT_EQ(block_sums_of(values, false), std::set{sums_of(values, 128)});
}

TEST(KernelsOnCpu, AMissingBarrierShowsInSomeOrder) {
    const std::vector<int> values = numbers(128);
    EXPECT_GT(block_sums_of(values, true).size(), 1U);
}

TEST(KernelsOnCpu, WarpsShuffleAndVote) {
    const std::vector<int> values = numbers(6 * 32);
    std::vector<int> parity = values;
    for (int& value : parity) {
        value %= 2;
    }
    every_order([&] {
        GuardedArray<int> in(values);
        GuardedArray<int> down(6), across(6), odd(6), prefix(values.size());
        warp_sums(in.data(), 6, down.data(), across.data(), odd.data());
        EXPECT_EQ(down.values(), sums_of(values, 32));
        EXPECT_EQ(across.values(), sums_of(values, 32));
        EXPECT_EQ(odd.values(), sums_of(parity, 32));
        prefix_sums(in.data(), 6 * 32, prefix.data());
        for (std::size_t i = 0; i < values.size(); ++i) {
            const int before = i % 16 == 0 ? 0 : prefix[i - 1];
            ASSERT_EQ(prefix[i], before + values[i]) << i;
        }
    });
}

TEST(KernelsOnCpu, AtomicsCountAndWhatIsNotAtomicLosesCounts) {
    std::vector<std::uint8_t> values;
    std::vector<int> expected(8);
    for (const int value : numbers(256, 8)) {
        values.push_back(static_cast<std::uint8_t>(value));
        ++expected[static_cast<std::size_t>(value)];
    }
    every_order([&] {
        for (const bool careless : {false, true}) {
            GuardedArray<std::uint8_t> in(values);
            GuardedArray<int> bins(std::vector<int>(8));
            histogram(in.data(), static_cast<int>(values.size()), bins.data(), careless);
            EXPECT_EQ(bins.values() == expected, !careless);
        }
    });
}

TEST(KernelsOnCpu, SharedMemoryBeginsAsNan) {
    GuardedArray<float> out(32);
    read_unwritten(out.data());
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[31]));
}

TEST(KernelsOnCpu, BarriersThatCannotOpenAreFaults) {
    every_order([] {
        EXPECT_THROW(diverge(), KernelFault);
        EXPECT_THROW(vote_with_the_ended(), KernelFault);
    });
    EXPECT_THROW(on_cpu::run_grid(1, 1025, [] {}), KernelFault);
    EXPECT_THROW(on_cpu::run_grid(0, 32, [] {}), KernelFault);
}

// 64 floats end at a page; of 62 the last vector ends 8 bytes later, which ASan alone sees.
TEST(KernelsOnCpuDeathTest, AccessesOutsideEndTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    GuardedArray<float> in(64);
    GuardedArray<float> out(64);
    shift(in.data(), 63, out.data());
    EXPECT_DEATH(shift(in.data(), 64, out.data()), "");
    copy_vectors(in.data(), 64, out.data());
    GuardedArray<float> page(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / sizeof(float));
    EXPECT_DEATH(copy_vectors(page.data() - 4, 64, out.data()), "");
#if defined(__SANITIZE_ADDRESS__)
    GuardedArray<float> ragged(62);
    EXPECT_DEATH(copy_vectors(in.data(), 62, ragged.data()), "use-after-poison");
    EXPECT_DEATH(copy_vectors(in.data() + 1, 60, out.data()), "misaligned");  // UBSan
#endif
}

}  // namespace
}  // namespace stoker::testing
