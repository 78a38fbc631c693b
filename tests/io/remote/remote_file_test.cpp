// Remote files on a server with faults of all kinds: a read returns the object's bytes or throws an error of one line.
#include "stoker/io/remote/remote_file.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <thread>

#include "io/remote/remote_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpServer;
using ::testing::Not;
using testing::SeenRequest;
using testing::ServedObject;
using testing::ServerFault;
using testing::TempDir;
using Kind = ServerFault::Kind;
using testing::make_bytes;
using testing::own_shared;
using testing::quick;
using testing::read_text_at;
using testing::RemoteFileTest;
using testing::thrown_by;

TEST_F(RemoteFileTest, ReadsAnyRange) {
    const RemoteFile file = open();
    EXPECT_EQ(file.size(), bytes_.size());
    EXPECT_EQ(file.name(), server_.url());
    EXPECT_TRUE(file.remote());
    EXPECT_THAT(file.stamp(), HasSubstr("v1"));
    std::minstd_rand random(7);
    for (int i = 0; i < 200; ++i) {
        const std::size_t offset = random() % (bytes_.size() + 1);
        const std::size_t size = random() % (bytes_.size() - offset + 1);
        ASSERT_EQ(read_text_at(file, offset, size), bytes_.substr(offset, size)) << offset << " " << size;
    }
}

TEST_F(RemoteFileTest, AdjacentBlocksAreOneRequestAndAreFetchedOnce) {
    const RemoteFile file = open();
    server_.forget_seen();
    read_text_at(file, 5000, 8000);  // blocks 1 to 3
    ASSERT_EQ(server_.seen().size(), 1U);
    EXPECT_EQ(server_.seen()[0].first, 4096U);
    EXPECT_EQ(server_.seen()[0].size(), 3U * 4096);
    EXPECT_EQ(server_.seen()[0].headers["if-match"], "\"v1\"");
    EXPECT_THAT(server_.seen()[0].headers["user-agent"], HasSubstr("stoker/"));
    read_text_at(file, 4096, 3 * 4096);
    EXPECT_EQ(server_.seen().size(), 1U);
    read_text_at(file, 0, bytes_.size());
    for (const SeenRequest& request : server_.seen()) {
        EXPECT_LE(request.size(), 16384U);
    }
}

TEST_F(RemoteFileTest, BeyondTheEndIsRefused) {
    const RemoteFile file = open();
    EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 99'999, 2); }), HasSubstr("object of 100000 bytes"));
    EXPECT_THROW(read_text_at(file, ~std::uint64_t{0}, 2), IoError);
}

// A curl handle whose lookup failed does not affect the next try.
TEST_F(RemoteFileTest, AHostThatIsNotFoundIsLookedUpAgain) {
    RemoteOptions options = quick();
    options.patience = std::chrono::milliseconds(300);
    const std::string error = thrown_by<IoError>([&] { open_byte_file("http://no-such-host.invalid/x.tar", options); });
    EXPECT_THAT(error, HasSubstr("no-such-host.invalid"));
    EXPECT_THAT(error, ::testing::Not(HasSubstr("libcurl")));
}

TEST_F(RemoteFileTest, EmptyObject) {
    server_.put("/empty", {.bytes = ""});
    const RemoteFile file = open(quick(), "/empty");
    EXPECT_EQ(file.size(), 0U);
    EXPECT_EQ(read_text_at(file, 0, 0), "");
}

TEST_F(RemoteFileTest, AServerWithoutRanges) {
    server_.set_faults([](const SeenRequest&) { return ServerFault{.kind = Kind::whole}; });
    const RemoteFile file = open();  // small: read whole
    EXPECT_EQ(read_text_at(file, 17, 50'000), bytes_.substr(17, 50'000));
    server_.put("/large", {.bytes = std::string(RemoteObject::kWholeBytes + 1, 'x')});
    EXPECT_THAT(thrown_by<IoError>([&] { open(quick(), "/large"); }), HasSubstr("range requests"));
}

TEST_F(RemoteFileTest, ARangeIgnoredAfterOpeningIsAnError) {
    const RemoteFile file = open();
    server_.set_faults([](const SeenRequest&) { return ServerFault{.kind = Kind::whole}; });
    EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 0, 10); }), HasSubstr("the whole object"));
}

TEST_F(RemoteFileTest, FinalStatusesFailAtOnce) {
    const RemoteFile file = open();
    for (const int status : {400, 401, 403, 404, 410, 416, 501}) {
        server_.set_faults([&](const SeenRequest&) { return ServerFault{.kind = Kind::status, .status = status}; });
        server_.forget_seen();
        const std::string status_text = fmt::format("status {}", status);
        EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 0, 10); }),
                    AllOf(HasSubstr(server_.url()), HasSubstr(status_text)));
        EXPECT_THAT(thrown_by<IoError>([&] { open(); }), HasSubstr(status_text));
        EXPECT_EQ(server_.seen().size(), 2U);
    }
}

TEST_F(RemoteFileTest, PassingStatusesAreTriedAgain) {
    const RemoteFile file = open();
    std::uint64_t offset = 0;
    for (const int status : {408, 429, 500, 502, 503, 504}) {
        std::atomic<int> left = 3;
        server_.set_faults([&](const SeenRequest&) {
            return left-- > 0 ? ServerFault{.kind = Kind::status, .status = status, .headers = "Retry-After: 0\r\n"}
                              : ServerFault{};
        });
        EXPECT_EQ(read_text_at(file, offset, 4096), bytes_.substr(offset, 4096));
        offset += 4096;
    }
}

// The first answer of all says that the server is there: it then has the whole patience.
TEST_F(RemoteFileTest, AServerThatStartsIsGivenTime) {
    RemoteOptions options = quick();
    options.patience = std::chrono::seconds(4);
    std::atomic<int> left = 1;
    server_.set_faults([&](const SeenRequest&) {
        return left-- > 0 ? ServerFault{.kind = Kind::status, .status = 503, .headers = "Retry-After: 1\r\n"}
                          : ServerFault{};
    });
    EXPECT_EQ(open(options).size(), bytes_.size());
}

TEST_F(RemoteFileTest, PatienceEnds) {
    RemoteOptions options = quick();
    options.patience = std::chrono::milliseconds(50);
    const RemoteFile file = open(options);
    server_.set_faults([](const SeenRequest&) {
        return ServerFault{.kind = Kind::status, .status = 503, .body = "<Error><Code>SlowDown</Code></Error>"};
    });
    EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 0, 10); }),
                AllOf(HasSubstr("status 503 (SlowDown)"), HasSubstr("tries in")));
    server_.set_faults({});
    EXPECT_EQ(read_text_at(file, 0, 10), bytes_.substr(0, 10));  // a failure is not remembered
}

TEST_F(RemoteFileTest, EachFaultPasses) {
    for (const Kind kind : {Kind::short_body, Kind::short_length, Kind::long_body, Kind::reset, Kind::no_answer,
                            Kind::stall, Kind::other_range}) {
        RemoteOptions options = quick();
        options.patience = std::chrono::seconds(30);  // on a busy machine one stalled request may take two seconds
        const RemoteFile file = open(options);
        std::atomic<int> left = 1;
        server_.set_faults(
            [&](const SeenRequest&) { return left-- > 0 ? ServerFault{.kind = kind, .bytes = 1000} : ServerFault{}; });
        EXPECT_EQ(read_text_at(file, 3000, 20'000), bytes_.substr(3000, 20'000)) << static_cast<int>(kind);
        EXPECT_LT(left, 0);
        server_.set_faults({});
    }
}

TEST_F(RemoteFileTest, WhatCameBeforeABreakIsKept) {
    EXPECT_EQ(second_request_after_a_break(), 50'000U);
}

TEST_F(RemoteFileTest, AChangedObjectIsNeverMixed) {
    for (const bool strong : {true, false}) {  // reported by status 412, or only by the ETag of the answer
        server_.put("/object", {.bytes = bytes_, .etag = strong ? "\"v1\"" : "W/\"v1\""});
        const RemoteFile file = open();
        EXPECT_EQ(read_text_at(file, 0, 10), bytes_.substr(0, 10));
        server_.put("/object", {.bytes = make_bytes(100'000, 2), .etag = strong ? "\"v2\"" : "W/\"v2\""});
        EXPECT_THAT(thrown_by<IoError>([&] { read_text_at(file, 50'000, 10); }),
                    HasSubstr("replaced while it was open"));
    }
}

TEST_F(RemoteFileTest, AChangeOfTimeOrSizeIsSeenToo) {
    server_.put("/object", {.bytes = bytes_, .etag = "", .last_modified = "Mon, 01 Jan 2024 00:00:00 GMT"});
    const RemoteFile dated = open();
    server_.put("/object", {.bytes = bytes_, .etag = "", .last_modified = "Mon, 01 Jan 2024 00:00:01 GMT"});
    EXPECT_THROW(read_text_at(dated, 0, 10), IoError);
    server_.put("/object", {.bytes = bytes_, .etag = ""});
    const RemoteFile sized = open();
    server_.put("/object", {.bytes = bytes_ + "x", .etag = ""});
    EXPECT_THROW(read_text_at(sized, 0, 10), IoError);
}

TEST_F(RemoteFileTest, TwoThreadsShareOneFetch) {
    const RemoteFile file = open();
    server_.forget_seen();
    server_.set_faults([](const SeenRequest&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return ServerFault{};
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] { EXPECT_EQ(read_text_at(file, 0, 100), bytes_.substr(0, 100)); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(server_.seen().size(), 1U);
}

TEST_F(RemoteFileTest, PrefetchStaysWithinTheBudget) {
    shared_ = own_shared(8 * 4096);
    const RemoteFile file = open();
    server_.forget_seen();
    const ByteRange all{.offset = 0, .size = bytes_.size()};
    file.prefetch(std::span(&all, 1));
    EXPECT_LE(shared_.pool->usage().bytes, 8 * 4096);
    EXPECT_EQ(read_text_at(file, 0, 8 * 4096), bytes_.substr(0, 8 * 4096));
    std::uint64_t fetched = 0;
    for (const SeenRequest& request : server_.seen()) {
        fetched += request.size();
    }
    EXPECT_EQ(fetched, 8U * 4096);  // the rest of the prefetch was dropped
    const ByteRange next{.offset = 8 * 4096, .size = 4096};
    file.prefetch(std::span(&next, 1));  // replaces blocks that were read
    EXPECT_EQ(read_text_at(file, 8 * 4096, 4096), bytes_.substr(8 * 4096, 4096));
    EXPECT_EQ(read_text_at(file, 0, bytes_.size()), bytes_);
    for (std::uint64_t offset = 0; offset < bytes_.size(); offset += 3000) {
        const ByteRange ahead{.offset = offset, .size = 12'000};
        file.prefetch(std::span(&ahead, 1));
        read_text_at(file, offset, 1000);
        EXPECT_LE(shared_.pool->usage().bytes, 8 * 4096);
        EXPECT_LE(shared_.pool->usage().allocated, 8 * 4096);
    }
}

TEST_F(RemoteFileTest, ClosingWithFetchesUnderWay) {
    server_.set_faults([](const SeenRequest& request) {
        return request.size() == 1 ? ServerFault{} : ServerFault{.kind = Kind::stall, .bytes = 10};
    });
    for (int i = 0; i < 3; ++i) {
        const RemoteFile file = open();
        const ByteRange all{.offset = 0, .size = bytes_.size()};
        file.prefetch(std::span(&all, 1));
    }
    server_.set_faults({});
    EXPECT_EQ(read_text_at(open(), 0, bytes_.size()), bytes_);
}

TEST_F(RemoteFileTest, AServerThatIsRestarted) {
    RemoteOptions options = quick();
    options.patience = std::chrono::milliseconds(20'000);
    const RemoteFile file = open(options);
    std::thread restart;
    for (std::size_t offset = 0; offset + 5000 <= bytes_.size(); offset += 5000) {
        if (offset == 25'000) {
            server_.stop();
            restart = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
                server_.start();
            });
        }
        ASSERT_EQ(read_text_at(file, offset, 5000), bytes_.substr(offset, 5000));
    }
    restart.join();
}

TEST_F(RemoteFileTest, NobodyThere) {
    server_.stop();
    RemoteOptions options = quick();
    options.patience = std::chrono::milliseconds(300);
    EXPECT_THAT(thrown_by<IoError>([&] { open(options); }), AllOf(HasSubstr(server_.url()), HasSubstr("tries in")));
}

TEST_F(RemoteFileTest, MessagesContainNoSecrets) {
    const std::string url =
        fmt::format("http://user:secret@127.0.0.1:{}/nothing?X-Amz-Signature=abcdef#part", server_.port());
    const std::string message = thrown_by<IoError>([&] { RemoteFile(url, quick(), shared_); });
    EXPECT_THAT(message,
                AllOf(HasSubstr("/nothing?..."), Not(HasSubstr("secret")), Not(HasSubstr("abcdef")), HasSubstr("404")));
    EXPECT_THAT(server_.seen().back().path, "/nothing?X-Amz-Signature=abcdef");
    EXPECT_THAT(server_.seen().back().headers["authorization"], HasSubstr("Basic"));
}

TEST_F(RemoteFileTest, RedirectsAreFollowed) {
    server_.put("/there", {.bytes = bytes_});
    server_.set_faults([&](const SeenRequest& request) {
        return request.path == "/object" ? ServerFault{.kind = Kind::status,
                                                       .status = 302,
                                                       .headers = "Location: " + server_.url("/there") + "\r\n"}
                                         : ServerFault{};
    });
    EXPECT_EQ(read_text_at(open(), 100, 9000), bytes_.substr(100, 9000));
    server_.set_faults([&](const SeenRequest&) {
        return ServerFault{.kind = Kind::status, .status = 302, .headers = "Location: file:///etc/passwd\r\n"};
    });
    EXPECT_THROW(open(), IoError);
    server_.set_faults([&](const SeenRequest&) {
        return ServerFault{.kind = Kind::status, .status = 302, .headers = "Location: /object\r\n"};
    });
    EXPECT_THROW(open(), IoError);
}

TEST_F(RemoteFileTest, HostileHeads) {
    for (const char* range : {"bytes 0-0/99999999999999999999", "bytes 0-0/*", "bytes 5-4/10", "bytes 0-0/0",
                              "bytes 0-0", "bytes 0-18446744073709551615/18446744073709551616", "items 0-0/7", ""}) {
        server_.set_faults([&](const SeenRequest&) {
            return ServerFault{.kind = Kind::status,
                               .status = 206,
                               .headers = fmt::format("Content-Range: {}\r\n", range),
                               .body = "x"};
        });
        RemoteOptions options = quick();
        options.patience = std::chrono::milliseconds(20);
        EXPECT_THROW(open(options), IoError) << range;
    }
    server_.set_faults([&](const SeenRequest&) {
        return ServerFault{.kind = Kind::status, .status = 404, .headers = "X: " + std::string(100'000, 'x') + "\r\n"};
    });
    EXPECT_THROW(open(), IoError);
    server_.set_faults([](const SeenRequest&) { return ServerFault{.kind = Kind::garbage}; });
    EXPECT_THROW(open(), IoError);
}

TEST_F(RemoteFileTest, OptionsThatCannotBe) {
    RemoteOptions options = quick();
    options.block_bytes = 0;
    EXPECT_THROW(open(options), InvalidArgument);
    options = quick();
    options.request_bytes = 1;
    EXPECT_THROW(open(options), InvalidArgument);
    EXPECT_THROW(open_byte_file("ftp://host/x"), Unsupported);
    EXPECT_THROW(open_byte_file("http:///x"), InvalidArgument);
}

}  // namespace
}  // namespace stoker
