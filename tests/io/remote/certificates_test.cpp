// The places of the certificates that https trusts. The variables are tested with the program: test_remote_security.py.
#include "stoker/io/remote/certificates.h"

#include <array>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "support/temp_dir.h"

namespace stoker {
namespace {

TEST(Certificates, AnotherDistributionsFileIsFound) {
    const stoker::testing::TempDir folder;
    const std::string missing = folder.path() / "missing.pem";
    const std::string there = folder.path() / "there.pem";
    const std::string later = folder.path() / "later.pem";
    const std::string hashed = folder.path();
    for (const std::string& path : {there, later}) {
        std::ofstream(path) << "certificates";
    }
    const std::array places = {missing.c_str(), hashed.c_str(), there.c_str(), later.c_str()};
    EXPECT_EQ(system_certificates(missing.c_str(), hashed.c_str(), places), there);
    EXPECT_EQ(system_certificates(nullptr, missing.c_str(), places), there);
    EXPECT_EQ(system_certificates(later.c_str(), nullptr, places), "") << "libcurl's own file is there";
    EXPECT_EQ(system_certificates(nullptr, hashed.c_str(), places), "") << "libcurl's own folder is there";
    EXPECT_EQ(system_certificates(missing.c_str(), nullptr, {}), "");
}

}  // namespace
}  // namespace stoker
