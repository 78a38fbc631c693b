// A document's hash of itself: found damage, and documents without one.
#include "stoker/base/self_hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

const std::string kText = fmt::format("{{\n \"a\": 17,\n \"{}\": \"{}\"\n}}\n", kSelfHash, kNoSelfHash);

TEST(SelfHash, EveryChangeButOfItsNameIsFound) {
    const std::string hashed = with_self_hash(kText);
    EXPECT_EQ(hashed.size(), kText.size());
    EXPECT_NE(hashed, kText);
    EXPECT_TRUE(self_hash_fits(hashed));
    EXPECT_FALSE(self_hash_fits(kText)) << "zeros are not its hash";
    const std::size_t name = hashed.find("\"self_hash\": \"");
    const std::size_t digits = hashed.find(": \"", name) + 3;
    for (std::size_t at = 0; at < hashed.size(); ++at) {
        std::string bad = hashed;
        bad[at] ^= 1;
        EXPECT_EQ(self_hash_fits(bad), at >= name && at < digits) << at;
    }
}

TEST(SelfHash, ADocumentWithoutOneIsAccepted) {
    EXPECT_TRUE(self_hash_fits("{}"));
    EXPECT_EQ(with_self_hash("{}"), "{}");
    EXPECT_TRUE(self_hash_fits("\"self_hash\": \"0123"));
}

}  // namespace
}  // namespace stoker
