// Encoders that fail part-way release their buffers. (codec_test.cpp and others read back what the encoders write.)
#include "stoker/codecs/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "codecs/fixtures.h"
#include "support/address_limit.h"
#include "support/environment_variable.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The bytes that malloc has handed out. 0 under AddressSanitizer, which reports leaks itself.
std::size_t allocated() {
    const struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
}

TEST(EncodeTest, SizesThatJpegCannotHoldAreRefused) {
    const std::vector<std::uint8_t> pixels(70'000);
    for (const auto& [height, width] : {std::pair(1, 65'501), std::pair(65'501, 1), std::pair(0, 4), std::pair(4, 0)}) {
        const ConstImageView image{pixels.data(), height, width, 1, width};
        EXPECT_THAT([&] { encode_jpeg(image); }, ThrowsMessage<InvalidArgument>(HasSubstr("1 to 65500 pixels")));
    }
}

// libjpeg reads JPEGMEM (in kB), and a progressive file needs more than that before its first byte is written.
TEST(EncodeTest, AFailureBeforeTheFirstByteLeaksNothing) {
    const EnvironmentVariable limit("JPEGMEM", "1");
    const Image image = picture(64, 64);
    const auto encode = [&] { encode_jpeg(image.view(), {.progressive = true}); };
    EXPECT_THROW(encode(), InternalError);
    const std::size_t before = allocated();
    for (int i = 0; i < 1000; ++i) {
        EXPECT_THROW(encode(), InternalError);
    }
    EXPECT_LT(allocated(), before + 500'000);
}

// The output, 13 MB of noise, outgrows the largest buffer that can be had.
TEST(EncodeTest, AFailureInTheMiddleLeaksNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers end the process where memory ends";
#else
    constexpr int kSide = 2000;
    Image image(kSide, kSide, 3);
    std::uint32_t state = 1;
    for (int y = 0; y < kSide; ++y) {
        for (int i = 0; i < 3 * kSide; ++i) {
            state = state * 1'664'525 + 1'013'904'223;
            image.view().row(y)[i] = static_cast<std::uint8_t>(state >> 24);
        }
    }
    const JpegOptions best = {.quality = 100, .chroma_420 = false};
    ASSERT_GT(encode_jpeg(image.view(), best).size(), std::size_t{8} << 20);
    const std::size_t before = allocated();
    {
        const AddressLimit limit(std::size_t{24} << 20);
        std::vector<std::unique_ptr<char[]> > held;  // all blocks of 16 MiB, also those that other tests have freed
        while (char* block = new (std::nothrow) char[std::size_t{16} << 20]) {
            held.emplace_back(block);
        }
        EXPECT_THAT([&] { encode_jpeg(image.view(), best); },
                    ThrowsMessage<IoError>(HasSubstr("memory to encode a JPEG")));
    }
    EXPECT_LT(allocated(), before + 500'000);
#endif
}

}  // namespace
}  // namespace stoker
