// The check value of the CRC catalogue, and that of an empty input.
#include "stoker/base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>

#include "stoker/base/file.h"

namespace stoker {
namespace {

TEST(Crc32c, KnownValues) {
    EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
    EXPECT_EQ(crc32c({}), 0U);
}

}  // namespace
}  // namespace stoker
