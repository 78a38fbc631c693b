// What counts as too little memory, by errors that really happen and by those of devices that are not here.
#include "stoker/bridge/torch_error.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/bridge/device_lost.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kTooMuch = std::int64_t{1} << 50;  // bytes

template <typename Work>
bool runs_out_of_memory(const Work& work) {
    try {
        work();
    } catch (const std::exception& error) {
        return is_out_of_memory(error);
    }
    ADD_FAILURE() << "nothing was thrown";
    return false;
}

TEST(OutOfMemory, IsWhatTheHostsAllocatorsThrow) {
    EXPECT_TRUE(runs_out_of_memory([] { at::empty({kTooMuch}, at::kByte); }));
    EXPECT_TRUE(runs_out_of_memory([] { std::vector<char>().reserve(kTooMuch); }));
}

TEST(OutOfMemory, IsWhatADeviceSays) {
    EXPECT_TRUE(runs_out_of_memory([] { C10_THROW_ERROR(OutOfMemoryError, "CUDA's caching allocator"); }));
    for (const char* text : {"CUDA error: out of memory\nmore of it",
                             "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                             "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"}) {
        EXPECT_TRUE(runs_out_of_memory([&] { C10_THROW_ERROR(Error, text); })) << text;
        EXPECT_TRUE(runs_out_of_memory([&] { throw std::runtime_error(text); })) << text;
    }
}

// A kernel is loaded when it is launched for the first time.
TEST(OutOfMemory, IsWhatALaunchOfOursSays) {
    const auto launch = [](const char* got) {
        throw CudaError({.where = "batch norm", .expected = "a launch over (64, 8)", .got = got});
    };
    EXPECT_TRUE(runs_out_of_memory([&] { launch("out of memory"); }));
    EXPECT_FALSE(runs_out_of_memory([&] { launch("an illegal memory access was encountered"); }));
    EXPECT_FALSE(runs_out_of_memory([] {
        throw CudaError({.where = "pinned memory", .expected = "1 GiB", .got = "out of memory"});
    })) << "smaller batches need no less of it";
}

TEST(OutOfMemory, IsNothingElse) {
    EXPECT_FALSE(runs_out_of_memory([] { at::mm(at::zeros({2, 3}), at::zeros({2, 3})); }));
    EXPECT_FALSE(runs_out_of_memory([] { throw std::runtime_error("a file is missing"); }));
    EXPECT_FALSE(runs_out_of_memory([] {
        throw InvalidArgument({.where = "out of memory.toml", .expected = "a recipe", .got = "out of memory"});
    }));
}

// oneDNN says the same for a lack of memory and for other reasons.
TEST(OutOfMemory, IsAFailedPrimitiveWhereMemoryIsLow) {
    const auto fail = [] { throw std::runtime_error("could not create a primitive"); };
    EXPECT_THAT([&] { with_stoker_errors(fail); },
                ::testing::ThrowsMessage<std::runtime_error>("could not create a primitive"));
    const testing::MemoryRoom room(1 << 20);
    EXPECT_FALSE(runs_out_of_memory(fail)) << "a step must not be retried: oneDNN may crash";
    EXPECT_THAT([&] { with_stoker_errors(fail); },
                ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("[memory]"), HasSubstr("data.memory allows are free"),
                                                      HasSubstr("data.workers"), Not(HasSubstr("primitive")))));
}

TEST(OutOfMemory, IsToldInOneLineWithAHint) {
    const auto message = [](const auto& work) -> std::string {
        try {
            with_stoker_errors(work);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const auto told = AllOf(HasSubstr("[memory]"), HasSubstr("data.batch_size"), Not(HasSubstr("\\x0a")),
                            Not(HasSubstr("Exception raised from")));
    EXPECT_THAT(message([] { at::empty({kTooMuch}, at::kByte); }),
                AllOf(told, HasSubstr("1.0 PiB asked for at once"), HasSubstr(" are free"),
                      Not(HasSubstr("DefaultCPUAllocator"))));
    EXPECT_THAT(message([] { throw std::bad_alloc(); }),
                AllOf(told, HasSubstr("less than is needed"), Not(HasSubstr("bad_alloc"))));
    EXPECT_THAT(message([] { std::vector<char>().reserve(kTooMuch); }), told);
}

TEST(TorchError, SomeErrorsOfADeviceAreFinal) {
    const auto error = [](int code) {
        return c10::AcceleratorError({"launch", __FILE__, __LINE__}, code, "CUDA error: a test's\nand more");
    };
    EXPECT_TRUE(is_device_lost(error(700)));   // an illegal address
    EXPECT_FALSE(is_device_lost(error(1)));    // an invalid argument
    EXPECT_FALSE(is_device_lost(error(900)));  // an operation that cannot be captured
    EXPECT_FALSE(is_device_lost(std::runtime_error("CUDA error: unspecified launch failure")));
    try {
        with_stoker_errors([&]() -> int { throw error(719); });
        ADD_FAILURE() << "nothing was thrown";
    } catch (const DeviceLost& lost) {
        EXPECT_EQ(lost.reason(), "CUDA error: a test's");
    }
}

}  // namespace
}  // namespace stoker
