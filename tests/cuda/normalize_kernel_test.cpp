// normalize_cuda.cu on the CPU: the bits of its reference, in every order of blocks and threads.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/normalize_cases.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using on_cpu::every_order;
using testing::GuardedArray;
using testing::NormalizeCase;

TEST(NormalizeKernel, HasTheBitsOfTheCpu) {
    constexpr std::pair<int, int> kSizes[] = {{1, 1}, {28, 28}, {17, 33}};
    testing::for_each_normalize_case(kSizes, [](const NormalizeCase& one) {
        const std::vector<std::byte> expected = one.expected();
        every_order([&] {
            GuardedArray<std::uint8_t> pixels(one.batch.bytes());
            std::memcpy(pixels.data(), one.batch.view().data, one.batch.bytes());
            GuardedArray<std::byte> out(expected.size());
            one.run(pixels.data(), out.data());
            ASSERT_EQ(out.values(), expected) << one.name();
        });
    });
}

}  // namespace
}  // namespace stoker
