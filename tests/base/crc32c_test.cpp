// The check value of the CRC catalogue, that of an empty input, and both ways to compute others.
#include "stoker/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker {
namespace {

TEST(Crc32c, KnownValues) {
    EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
    EXPECT_EQ(crc32c({}), 0U);
    EXPECT_EQ(crc32c_by_tables(as_bytes("123456789")), 0xe3069283U);
}

TEST(Crc32c, TheInstructionAndTheTablesAgree) {
    std::string text;
    for (int i = 0; i < 300; ++i) {
        text += static_cast<char>(i * 37 + i / 7);
        for (std::size_t skip = 0; skip < 9 && skip < text.size(); ++skip) {
            const auto bytes = as_bytes(text).subspan(skip);
            ASSERT_EQ(crc32c(bytes), crc32c_by_tables(bytes)) << i << " " << skip;
        }
    }
}

TEST(Crc32c, MaskedAsTfRecordDoes) {
    const std::string_view length("\x0a\0\0\0\0\0\0\0", 8);  // of a record of 10 bytes by TensorFlow
    EXPECT_EQ(masked_crc32c(as_bytes(length)), 0x3abfa3aeU);
}

}  // namespace
}  // namespace stoker
