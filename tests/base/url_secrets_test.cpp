#include "stoker/base/url_secrets.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(UrlSecrets, OfMessages) {
    EXPECT_EQ(shown_url("https://u:p@w@host:1/a?b=c#d"), "https://host:1/a?...");
    EXPECT_EQ(shown_url("https://host/a#d"), "https://host/a");
    EXPECT_EQ(shown_url("https://u:p@host?x"), "https://host?...");
    EXPECT_EQ(shown_url("https://u:p/w@host/a"), "https://host/a");  // an unescaped '/' in the password
    EXPECT_EQ(shown_url("https://u:p/w@x@host/a@b"), "https://host/a@b");
    EXPECT_EQ(shown_url("https://u:p/w@x:y/z@host:1/a"), "https://host:1/a");
    EXPECT_EQ(shown_url("https://u:p/w"), "https:///w");
    EXPECT_EQ(shown_url("https://[::1]:80/a@b"), "https://[::1]:80/a@b");
    EXPECT_EQ(shown_url("https://[::1]/a"), "https://[::1]/a");
    EXPECT_EQ(shown_url("s3://KEY:SEC/RET@bucket/a?b#c"), "s3://bucket/a?b#c");
    EXPECT_EQ(shown_url("s3://bucket/a@b"), "s3://bucket/a@b");
    EXPECT_EQ(shown_url("gs://KEY:SEC/RET@bucket/a?b#c"), "gs://bucket/a?b#c");
    EXPECT_EQ(shown_url("hf://user:tok/en@datasets/a/b@main/x?y#z"), "hf://datasets/a/b@main/x?y#z");
    EXPECT_EQ(shown_url("hf://datasets/a/b@refs/pr/1/x"), "hf://datasets/a/b@refs/pr/1/x");
    EXPECT_EQ(shown_url("synth:digits?count=3"), "synth:digits?count=3");
    EXPECT_EQ(shown_url("data/a?b#c@d"), "data/a?b#c@d");
}

TEST(UrlSecrets, OfFiles) {
    EXPECT_EQ(stored_url("https://u:p@host/x-{0..9}.tar?sig=a"), "https://...@host/x-{0..9}.tar?...");
    EXPECT_EQ(stored_url("https://u@host/x.tar"), "https://...@host/x.tar");
    for (const char* url : {"https://host/x.tar", "s3://bucket/x.tar?y", "data/x.tar?", "10%", ""}) {
        EXPECT_EQ(stored_url(url), url);
        EXPECT_FALSE(lacks_secrets(url)) << url;
    }
    for (const char* url : {"https://u:p@host/x", "https://host/x?a", "s3://k:s@bucket/x"}) {
        EXPECT_FALSE(lacks_secrets(url)) << url;
        EXPECT_TRUE(lacks_secrets(stored_url(url))) << url;
        EXPECT_EQ(stored_url(stored_url(url)), stored_url(url));
    }
}

TEST(UrlSecrets, ASignatureDoesNotNameAnotherObject) {
    EXPECT_EQ(unsigned_url("https://u:p@host/x?X-Amz-Signature=1&file=a&X-Amz-Date=2&part=3"),
              "https://host/x?file=a&part=3");
    EXPECT_EQ(unsigned_url("https://host/x?sig=1&Token=2&auth_token=3&JWT=4"), "https://host/x");
    EXPECT_EQ(unsigned_url("https://host/x?key=a/b.tar&code=7"), "https://host/x?key=a/b.tar&code=7");
    EXPECT_EQ(unsigned_url("https://host/x?file=a"), "https://host/x?file=a");
    EXPECT_NE(unsigned_url("https://host/x?file=a"), unsigned_url("https://host/x?file=b"));
}

}  // namespace
}  // namespace stoker
