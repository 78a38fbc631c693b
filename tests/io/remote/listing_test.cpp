// Listings of S3, Google and the hub: their text, patterns, pages, and limits.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "remote_support.h"
#include "stoker/base/error.h"
#include "stoker/io/remote/listing_text.h"
#include "stoker/io/remote/remote_listing.h"
#include "stoker/io/remote/remote_pattern.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpServer;
using testing::quick;
using testing::SeenRequest;
using testing::ServerFault;
using testing::thrown_by;

std::string bucket(const std::string& inside) {
    return "<?xml version=\"1.0\"?>\n<!-- x -->\n<ListBucketResult xmlns=\"http://s3\">" + inside +
           "</ListBucketResult>\n";
}

TEST(ListingTextTest, KeysOfABucket) {
    const auto page = parse_bucket_listing(bucket(
        "<Name>b</Name><Prefix/><EncodingType>url</EncodingType>\n<IsTruncated>true</IsTruncated>"
        "<Contents><Key>a+b%2Bc/%C3%A9&amp;.tar</Key><Size>12</Size><Owner><ID>i</ID></Owner></Contents>"
        "<Contents><Size>0</Size><Key>a/</Key></Contents><NextContinuationToken>t&#x3d;&lt;</NextContinuationToken>"
        "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>"));
    ASSERT_TRUE(page);
    EXPECT_THAT(page->files, ElementsAre(ListedFile{"a b+c/\xc3\xa9&.tar", 12}));
    EXPECT_EQ(page->next, "t=<");
    const auto plain =
        parse_bucket_listing(bucket("<Contents><Key>a+b%20&#233;</Key><Size>1</Size></Contents>"
                                    "<NextContinuationToken>t</NextContinuationToken>"));
    EXPECT_THAT(plain->files, ElementsAre(ListedFile{"a+b%20\xc3\xa9", 1}));  // keys were not encoded
    EXPECT_EQ(plain->next, "");                                               // not truncated
    EXPECT_TRUE(parse_bucket_listing(bucket(""))->files.empty());
}

TEST(ListingTextTest, WhatIsNoWholeListing) {
    const std::string file = "<Contents><Key>a</Key><Size>1</Size></Contents>";
    ASSERT_TRUE(parse_bucket_listing(bucket(file)));
    std::string levels;
    for (int i = 0; i < 40; ++i) {
        levels += "<a>";
    }
    for (const std::string& bad :
         {std::string(), bucket(file).substr(0, bucket(file).size() - 5), bucket(file) + "<a></a>",
          bucket("<Contents><Key>a</Key></Contents>"), bucket("<Contents><Size>1</Size></Contents>"),
          bucket("<Contents><Key>a</Key><Size>-1</Size></Contents>"), bucket("<IsTruncated>true</IsTruncated>"),
          bucket("<Contents><Key>&lol;</Key><Size>1</Size></Contents>"), bucket("<Contents></Key>"),
          bucket("<Contents><Key>a<!-- b --></Key><Size>1</Size></Contents>"),
          bucket("<Contents><Key>a<b/></Key><Size>1</Size></Contents>"), bucket("<Key>&#xd800;</Key>"),
          "<!DOCTYPE a [<!ENTITY lol \"lol\">]>" + bucket(file), bucket(levels),
          std::string("<Error><Code>x</Code></Error>"), std::string("[]"),
          std::string("<html><body>sign in</body></html>")}) {
        EXPECT_FALSE(parse_bucket_listing(bad)) << bad;
    }
    for (const char* bad :
         {"", "{}", "[1]", "[{}]", R"([{"type":"file"}])", R"([{"type":"file","path":"a","size":-1}])",
          R"([{"type":"file","path":1,"size":1}])", R"([{"type":"file","path":"a","size":1})"}) {
        EXPECT_FALSE(parse_tree_listing(bad)) << bad;
    }
}

TEST(ListingTextTest, ATreeAndItsLinks) {
    const auto page = parse_tree_listing(
        R"([{"type":"directory","path":"d"},{"type":"file","path":"d/\u00e9","size":7,"lfs":{"size":7}},{"type":"new"}])");
    EXPECT_THAT(page->files, ElementsAre(ListedFile{"d/\xc3\xa9", 7}));
    EXPECT_EQ(next_link("<https://h/a?b=1,2>; rel=\"next\""), "https://h/a?b=1,2");
    EXPECT_EQ(next_link("<https://h/1>; rel=\"prev\", <https://h/2>;title=x;rel=next"), "https://h/2");
    EXPECT_EQ(next_link("<https://h/1>; rel=\"last\""), "");
    EXPECT_EQ(next_link("<https://h/1; rel=\"next\""), "");
    EXPECT_EQ(next_link(""), "");
}

TEST(RemotePatternTest, Stars) {
    const auto matches = [](const char* pattern, const char* name) { return RemotePattern(pattern).matches(name); };
    EXPECT_TRUE(matches("x-*.tar", "x-1.tar"));
    EXPECT_TRUE(matches("x-*.tar", "x-.tar"));
    EXPECT_FALSE(matches("x-*.tar", "x-a/b.tar"));
    EXPECT_FALSE(matches("x-*.tar", "x-1.tar.gz"));
    EXPECT_TRUE(matches("x?[1]*", "x?[1]2"));
    EXPECT_FALSE(matches("x?*", "x12"));
    EXPECT_TRUE(matches("**/*.tar", "a.tar"));
    EXPECT_TRUE(matches("**/*.tar", "d/e/a.tar"));
    EXPECT_TRUE(matches("d/**/a.tar", "d/a.tar"));
    EXPECT_TRUE(matches("d/**/a.tar", "d/e/f/a.tar"));
    EXPECT_FALSE(matches("d/**/a.tar", "d/ea.tar"));
    EXPECT_FALSE(matches("**/a.tar", "ba.tar"));
    EXPECT_TRUE(matches("d**a.tar", "d/e/fa.tar"));
    EXPECT_TRUE(matches("*", ""));
    EXPECT_FALSE(matches("a", ""));
    EXPECT_TRUE(RemotePattern("a/*").has_folders());
    EXPECT_TRUE(RemotePattern("**").has_folders());
    EXPECT_FALSE(RemotePattern("*.tar").has_folders());
    EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(3000, 'a').c_str()));  // takes no time
}

// Changes the environment of the process, so these tests must not run in parallel.
class ListingTest : public ::testing::Test {
  protected:
    ListingTest() {
        set("AWS_ENDPOINT_URL", server_.url(""));
        set("HF_ENDPOINT", server_.url(""));
        set("AWS_NO_SIGN_REQUEST", "1");
        set("AWS_CONFIG_FILE", "/nowhere");
        set("AWS_SHARED_CREDENTIALS_FILE", "/nowhere");
        set("HF_TOKEN", "HIDDEN");
    }
    ~ListingTest() override {
        for (const std::string& name : names_) {
            ::unsetenv(name.c_str());
        }
    }
    void set(const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
        names_.push_back(name);
    }

    // Answers the requests in turn, the last for ever.
    void answer(std::vector<ServerFault> answers) {
        server_.set_faults([answers, at = std::make_shared<std::atomic<std::size_t>>(0)](const SeenRequest&) {
            return answers[std::min(at->fetch_add(1), answers.size() - 1)];
        });
    }
    static ServerFault page(const std::string& body, const std::string& headers = "") {
        return {.kind = ServerFault::Kind::status, .status = 200, .headers = headers, .body = body};
    }
    static std::string files(int first, int count, const std::string& next = "") {
        std::string text;
        for (int i = first; i < first + count; ++i) {
            text += fmt::format("<Contents><Key>d/x-{}.tar</Key><Size>{}</Size></Contents>", i, i);
        }
        return bucket(text + (next.empty() ? ""
                                           : "<IsTruncated>true</IsTruncated><NextContinuationToken>" + next +
                                                 "</NextContinuationToken>"));
    }

    HttpServer server_;
    std::vector<std::string> names_;
};

TEST_F(ListingTest, PagesOfABucketAreJoinedSortedAndAskedAgain) {
    answer({page(files(1, 1, "t +")), {.kind = ServerFault::Kind::status, .status = 503}, page(files(0, 2))});
    EXPECT_THAT(list_remote("s3://bucket/d", quick()),
                ElementsAre(RemoteEntry{"s3://bucket/d/x-0.tar", 0}, RemoteEntry{"s3://bucket/d/x-1.tar", 1}));
    ASSERT_EQ(server_.seen().size(), 3U);
    EXPECT_EQ(server_.seen()[0].path, "/bucket/?encoding-type=url&list-type=2&prefix=d%2F");
    EXPECT_EQ(server_.seen()[2].path, "/bucket/?continuation-token=t%20%2B&encoding-type=url&list-type=2&prefix=d%2F");
    answer({page(files(1, 2))});
    EXPECT_THAT(match_remote("s3://bucket/d/x*2.tar", quick()), ElementsAre(RemoteEntry{"s3://bucket/d/x-2.tar", 2}));
    EXPECT_EQ(server_.seen()[3].path, "/bucket/?delimiter=%2F&encoding-type=url&list-type=2&prefix=d%2Fx");
    EXPECT_THROW(match_remote("s3://bucket/d/y*", quick()), IoError);
}

TEST_F(ListingTest, EndlessAndForeignListingsAreRefused) {
    answer({page(files(1, 1, "t"))});
    EXPECT_THAT(thrown_by<IoError>([] { list_remote("s3://bucket/d", quick(), {.pages = 20}); }),
                HasSubstr("20 pages"));
    EXPECT_EQ(server_.seen().size(), 20U);
    answer({page(files(1, 9))});
    EXPECT_THAT(thrown_by<IoError>([] { list_remote("s3://bucket/d", quick(), {.files = 8}); }), HasSubstr("8 files"));
    EXPECT_THROW(list_remote("s3://bucket/d", quick(), {.page_bytes = 100}), IoError);
    EXPECT_THROW(list_remote("s3://bucket/d", quick(), {.name_bytes = 100}), IoError);
    EXPECT_THROW(list_remote("s3://bucket/other", quick()), IoError);
    answer({page("<html></html>")});
    EXPECT_THROW(list_remote("s3://bucket/d", quick()), IoError);
    answer({{.kind = ServerFault::Kind::status, .status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"}});
    EXPECT_THAT(thrown_by<IoError>([] { list_remote("s3://bucket/d", quick()); }), HasSubstr("403 (AccessDenied)"));
    EXPECT_THROW(list_remote("https://host/d", quick()), Unsupported);
}

TEST_F(ListingTest, ATreeOfTheHub) {
    const std::string link = fmt::format("Link: <{}>; rel=\"next\"\r\n", server_.url("/api/2?cursor=x"));
    answer(
        {page(R"([{"type":"file","path":"d/b","size":2}])", link), page(R"([{"type":"file","path":"d/a","size":1}])")});
    EXPECT_THAT(list_remote("hf://datasets/org/name@~parquet/d", quick()),
                ElementsAre(RemoteEntry{"hf://datasets/org/name@~parquet/d/a", 1},
                            RemoteEntry{"hf://datasets/org/name@~parquet/d/b", 2}));
    EXPECT_EQ(server_.seen()[0].path, "/api/datasets/org/name/tree/refs%2Fconvert%2Fparquet/d?recursive=true");
    EXPECT_EQ(server_.seen()[1].path, "/api/2?cursor=x");
    EXPECT_EQ(server_.seen()[1].headers["authorization"], "Bearer HIDDEN");
}

TEST_F(ListingTest, OnlyTheFirstPageMayMeanAnotherRepository) {
    const std::string link = fmt::format("Link: <{}>; rel=\"next\"\r\n", server_.url("/api/2"));
    const ServerFault missing{
        .kind = ServerFault::Kind::status, .status = 404, .headers = "X-Error-Code: RepoNotFound\r\n"};
    answer({missing, page(R"([{"type":"file","path":"b/c","size":2}])")});
    EXPECT_THAT(list_remote("hf://datasets/a/b", quick()), ElementsAre(RemoteEntry{"hf://datasets/a@main/b/c", 2}));
    answer({page(R"([{"type":"file","path":"b/c","size":2}])", link), missing});
    EXPECT_THROW(list_remote("hf://datasets/a/b", quick()), IoError);
    EXPECT_EQ(server_.seen().size(), 4U);
}

}  // namespace
}  // namespace stoker
