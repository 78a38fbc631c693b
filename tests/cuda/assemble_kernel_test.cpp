// assemble_cuda.cu on the CPU: the bits of its reference, in every order of blocks and threads.
#include <gtest/gtest.h>

#include <functional>

#include "ops/assemble_cases.h"
#include "stoker/base/error.h"
#include "stoker/ops/assemble_cuda.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using on_cpu::every_order;
using testing::assemble_case;
using testing::AssembleCase;
using testing::GuardedArray;

std::vector<std::uint8_t> assembled(const AssembleCase& of) {
    std::vector<std::uint8_t> out(of.bytes());
    assemble(of.batch(of.memory.data(), of.draws.data(), out.data()));
    return out;
}

std::vector<std::uint8_t> assembled_by_kernel(const AssembleCase& of) {
    GuardedArray<std::byte> memory(of.memory);
    GuardedArray<AssembleDraw> draws(of.draws);
    GuardedArray<std::uint8_t> out(of.bytes());
    assemble_cuda(of.batch(memory.data(), draws.data(), out.data()), nullptr);
    return out.values();
}

TEST(AssembleKernel, HasTheBitsOfTheCpu) {
    for (const AssembleCase& of : testing::assemble_cases()) {
        const std::vector<std::uint8_t> expected = assembled(of);
        every_order([&] { ASSERT_EQ(assembled_by_kernel(of), expected) << of.to.height << " x " << of.to.width; });
    }
}

// The most columns, and the most weights.
TEST(AssembleKernel, WeightsThatFillTheSharedMemory) {
    ASSERT_TRUE(assemble_fits({{30, 1020}, {9, 1016}, {0, 0, 9, 1016}}));
    ASSERT_TRUE(assemble_fits({{2200, 2200}, {130, 130}, {0, 0, 130, 130}}));
    for (const AssembleCase& of : {assemble_case({9, 1016}, 1, {{{30, 1020}, {9, 1016}}}),
                                   assemble_case({130, 130}, 1, {{{2200, 2200}, {130, 130}}})}) {
        EXPECT_EQ(assembled_by_kernel(of), assembled(of)) << of.to.height << " x " << of.to.width;
    }
}

// Each planted difference of one parameter shows.
TEST(AssembleKernel, AWrongParameterIsSeen) {
    AssembleCase of = assemble_case({10, 9}, 3, {{{33, 34}, {16, 19}}}, std::nullopt);
    of.draws.back().output.erased = {2, 1, 4, 5};
    const std::vector<std::uint8_t> expected = assembled(of);
    const std::vector<std::function<void(AssembleDraw&)>> plants = {
        [](AssembleDraw& draw) { draw.image -= 1; },
        [](AssembleDraw& draw) { draw.output.noise ^= 1; },
        [](AssembleDraw& draw) { draw.output.noise ^= std::uint64_t{1} << 40; },
        [](AssembleDraw& draw) { ++draw.window.left; },
        [](AssembleDraw& draw) { ++draw.window.top; },
        [](AssembleDraw& draw) { --draw.source.height; },
        [](AssembleDraw& draw) { --draw.full.width; },
        [](AssembleDraw& draw) { ++draw.output.erased.left; },
        [](AssembleDraw& draw) { draw.flip_horizontal ^= 1; },
        [](AssembleDraw& draw) { draw.flip_vertical ^= 1; },
        [](AssembleDraw& draw) { draw.interpolation = Interpolation::bilinear; },
    };
    EXPECT_EQ(assembled_by_kernel(of), expected);
    for (std::size_t i = 0; i < plants.size(); ++i) {
        AssembleCase planted = of;
        planted.memory.resize(planted.memory.size() + 4096);
        plants[i](planted.draws.back());
        EXPECT_NE(assembled_by_kernel(planted), expected) << i;
    }
}

TEST(AssembleKernel, AReadOutsideOfTheMemoryIsSeen) {
    AssembleCase of = assemble_case({64, 64}, 1, {{{80, 80}, {80, 80}}});
    of.draws.back().image += 4096;
    EXPECT_DEATH(assembled_by_kernel(of), "");
}

TEST(AssembleKernel, RefusesWhatItCannotDo) {
    const AssembleCase of = assemble_case({4, 4}, 3, {});
    std::vector<std::uint8_t> out(of.bytes());
    const auto refused = [&](const std::function<void(AssembleBatch&)>& change) {
        AssembleBatch batch = of.batch(of.memory.data(), of.draws.data(), out.data());
        change(batch);
        try {
            assemble_cuda(batch, nullptr);
        } catch (const InvalidArgument&) {
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused([](AssembleBatch&) {}));
    EXPECT_TRUE(refused([](AssembleBatch& batch) { batch.to.width = kAssembleOutputs; }));
    EXPECT_TRUE(refused([](AssembleBatch& batch) { batch.to.height = 0; }));
    EXPECT_TRUE(refused([](AssembleBatch& batch) { batch.channels = 5; }));
}

}  // namespace
}  // namespace stoker
