// Files of the hub: versions, the disk cache, and refusals, with one server as the hub and another as its network.
#include <gmock/gmock.h>

#include <thread>

#include "remote_support.h"
#include "stoker/base/error.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpServer;
using testing::make_bytes;
using ::testing::Not;
using testing::own_shared;
using testing::quick;
using testing::read_text_at;
using testing::SeenRequest;
using testing::ServerFault;
using testing::TempDir;
using testing::thrown_by;

// Changes the environment of the process, so these tests must not run in parallel.
class HubAccessTest : public ::testing::Test {
  protected:
    HubAccessTest() {
        ::setenv("HF_ENDPOINT", hub_.url("").c_str(), 1);
        ::setenv("HF_TOKEN", "HIDDENtoken", 1);
        hub_.set_faults([this](const SeenRequest&) {
            return ServerFault{.kind = ServerFault::Kind::status, .status = 302, .headers = redirect_};
        });
        network_.put("/blob?sig=HIDDEN1", {.bytes = bytes_, .etag = "\"n1\""});
        network_.put("/blob?sig=HIDDEN2", {.bytes = bytes_, .etag = "\"n2\""});
        lead_to("1", "\"hash\"");
    }
    ~HubAccessTest() override {
        ::unsetenv("HF_ENDPOINT");
        ::unsetenv("HF_TOKEN");
    }

    void lead_to(const std::string& signature, const std::string& etag) {
        redirect_ =
            fmt::format("Location: {}{}\r\nX-Linked-ETag: {}\r\n", network_.url("/blob?sig=HIDDEN"), signature, etag);
    }
    // The network refuses the first signature from now on.
    void expire() {
        network_.set_faults([](const SeenRequest& request) {
            const bool old = request.path.ends_with('1');
            return old ? ServerFault{.kind = ServerFault::Kind::status, .status = 403} : ServerFault{};
        });
    }

    const std::string name_ = "hf://datasets/org/name/x";
    std::string bytes_ = make_bytes(100'000);
    std::string redirect_;
    HttpServer hub_;
    HttpServer network_;
};

TEST_F(HubAccessTest, TheHubsHashIsTheVersion) {
    const TempDir dir;
    RemoteOptions options = quick();
    options.cache_dir = dir / "blocks";
    options.cache_bytes = 1 << 20;
    const auto read = [&] {
        const RemoteFile file(name_, options, own_shared());
        EXPECT_TRUE(file.settled());
        EXPECT_EQ(file.stamp(), "100000 bytes of \"hash\"");
        EXPECT_EQ(file.identity(), hub_.url("/datasets/org/name/resolve/main/x"));
        EXPECT_EQ(read_text_at(file, 5000, 50'000), bytes_.substr(5000, 50'000));
    };
    read();
    lead_to("2", "\"hash\"");
    network_.forget_seen();
    read();
    EXPECT_EQ(network_.seen().size(), 1U) << "blocks on disk belong to the hash, not to the signature";
    for (const SeenRequest& request : network_.seen()) {
        EXPECT_EQ(request.headers.count("authorization") + request.headers.count("if-match"), 0U);
    }
    EXPECT_EQ(hub_.seen()[0].headers["authorization"], "Bearer HIDDENtoken");
}

TEST_F(HubAccessTest, ThreadsGetANewSignatureOnce) {
    const RemoteFile file(name_, quick(), own_shared());
    expire();
    lead_to("2", "\"hash\"");
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
            EXPECT_NO_THROW(EXPECT_EQ(read_text_at(file, i * 16'384, 4096), bytes_.substr(i * 16'384, 4096)));
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(hub_.seen().size(), 2U);
}

TEST_F(HubAccessTest, OtherContentBehindANewSignatureIsAChange) {
    const RemoteFile file(name_, quick(), own_shared());
    expire();
    lead_to("2", "\"other\"");
    EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 0, 100); }),
                AllOf(HasSubstr("replaced while it was open"), Not(HasSubstr("HIDDEN"))));
}

TEST_F(HubAccessTest, ALastingRefusalEndsSoon) {
    const RemoteFile file(name_, quick(), own_shared());
    expire();
    EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 0, 100); }),
                AllOf(HasSubstr("status 403"), Not(HasSubstr("HIDDEN"))));
    EXPECT_LT(hub_.seen().size(), 5U);
}

TEST_F(HubAccessTest, TransientFailuresOfTheHubAreRetried) {
    std::atomic<int> left = 2;
    hub_.set_faults([&](const SeenRequest&) {
        return left-- > 0 ? ServerFault{.kind = ServerFault::Kind::status, .status = 429}
                          : ServerFault{.kind = ServerFault::Kind::status, .status = 302, .headers = redirect_};
    });
    EXPECT_EQ(RemoteFile(name_, quick(), own_shared()).size(), 100'000U);
}

TEST_F(HubAccessTest, SmallFilesComeFromTheHub) {
    hub_.set_faults({});
    hub_.put("/datasets/org/name/resolve/main/x", {.bytes = "0123456789"});
    const RemoteFile file(name_, quick(), own_shared());
    EXPECT_EQ(read_text_at(file, 2, 3), "234");
    hub_.set_faults([](const SeenRequest&) { return ServerFault{.kind = ServerFault::Kind::whole}; });
    EXPECT_EQ(read_text_at(RemoteFile(name_, quick(), own_shared()), 2, 3), "234");
    hub_.put("/datasets/org/name/resolve/main/x", {.bytes = ""});
    hub_.set_faults({});
    EXPECT_EQ(RemoteFile(name_, quick(), own_shared()).size(), 0U);
    for (const SeenRequest& request : hub_.seen()) {
        EXPECT_EQ(request.headers.at("authorization"), "Bearer HIDDENtoken");
    }
}

TEST_F(HubAccessTest, RedirectsInACircleEnd) {
    redirect_ = fmt::format("Location: {}\r\n", hub_.url("/again"));
    EXPECT_THROW(RemoteFile(name_, quick(), own_shared()), IoError);
    EXPECT_LT(hub_.seen().size(), 8U);
}

}  // namespace
}  // namespace stoker
