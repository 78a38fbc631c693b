// A run's readings of its GPU: LibTorch's memory, and the clocks from a made-up NVML.
#include "stoker/train/run/device_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "bridge/fake_torch_cuda.h"
#include "support/environment_variable.h"
#include "support/paths.h"

namespace stoker {
namespace {

const std::string kFakeNvml = testing::program_dir() / "libfake_nvml.so";

TEST(DeviceReader, AGpuHasClocksOnceASecond) {
    testing::FakeTorchCuda library;
    library.devices[0].uuid = std::string("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16);
    const ReplacedTorchCuda replaced(library);
    const testing::EnvironmentVariable kind("FAKE_NVML", "hot");
    DeviceReader reader({at::kCUDA, 0}, kFakeNvml);
    const DeviceReading first = reader.read();
    EXPECT_EQ(first.peak_bytes, 0);
    ASSERT_TRUE(first.clocks);
    EXPECT_EQ(first.clocks->celsius, 88);
    const DeviceReading second = reader.read();
    EXPECT_EQ(second.peak_bytes, 0);
    EXPECT_FALSE(second.clocks) << "within a second of the last one";
}

TEST(DeviceReader, AGpuThatNvmlDoesNotKnow) {
    testing::FakeTorchCuda library;
    library.devices[0].uuid = std::string(16, '\x11');
    const ReplacedTorchCuda replaced(library);
    EXPECT_FALSE(DeviceReader({at::kCUDA, 0}, kFakeNvml).read().clocks);
    EXPECT_FALSE(DeviceReader({at::kCUDA, 0}, "libof-no-driver.so").read().clocks);
}

TEST(DeviceReader, ACpuHasNothing) {
    const DeviceReading reading = DeviceReader(at::kCPU, kFakeNvml).read();
    EXPECT_FALSE(reading.peak_bytes);
    EXPECT_FALSE(reading.clocks);
}

}  // namespace
}  // namespace stoker
