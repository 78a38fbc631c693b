// Frames written byte by byte: their content, and sizes that are wrong or impossible.
#include "stoker/io/zstd.h"

#include <gtest/gtest.h>

#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

std::string content_of(const std::string& frame) {
    std::string out(static_cast<std::size_t>(zstd_content_size(as_bytes(frame))), '\0');
    unzstd(as_bytes(frame), std::as_writable_bytes(std::span(out)));
    return out;
}

// A frame of one block that repeats a byte.
std::string repeated(char byte, std::uint32_t size, std::uint32_t stated) {
    std::string frame("\x28\xb5\x2f\xfd\xa0", 5);
    for (int i = 0; i < 4; ++i) {
        frame += static_cast<char>(stated >> (8 * i));
    }
    const std::uint32_t header = size << 3 | 0b011;
    for (int i = 0; i < 3; ++i) {
        frame += static_cast<char>(header >> (8 * i));
    }
    return frame + byte;
}

TEST(Zstd, GivesTheContent) {
    EXPECT_EQ(content_of(repeated('x', 100'000, 100'000)), std::string(100'000, 'x'));
}

TEST(Zstd, RefusesOtherSizes) {
    EXPECT_THROW(content_of(repeated('x', 10, 11)), DataError);
    EXPECT_THROW(content_of(repeated('x', 10, 9)), DataError);
    EXPECT_THROW(zstd_content_size(as_bytes(repeated('x', 10, 4'000'000'000))), DataError);  // more than it can hold
}

TEST(Zstd, RefusesOtherBytes) {
    EXPECT_THROW(zstd_content_size(as_bytes("no frame at all")), DataError);
    EXPECT_THROW(zstd_content_size({}), DataError);
    const std::string frame = repeated('x', 10, 10);
    EXPECT_THROW(content_of(frame.substr(0, frame.size() - 2)), DataError);
    EXPECT_THROW(zstd_content_size(as_bytes(std::string("\x28\xb5\x2f\xfd\x00\x58", 6))), DataError);  // no size
}

}  // namespace
}  // namespace stoker
