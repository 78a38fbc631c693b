// Names, settings and signatures of S3. Signatures are compared with the examples that Amazon publishes, requests are
// checked on a server. tests/python/test_remote.py compares signatures of random keys with botocore's.
#include "stoker/io/remote/s3.h"

#include <gmock/gmock.h>

#include <fstream>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/io/remote/remote_file.h"
#include "stoker/io/remote/url.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HttpServer;
using ::testing::Not;
using testing::SeenRequest;
using testing::ServerFault;
using testing::TempDir;

Variables variables(std::map<std::string, std::string> set) {
    return [set = std::move(set)](const std::string& name) {
        const auto found = set.find(name);
        return found == set.end() ? "" : found->second;
    };
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "GET Object".
TEST(S3SignatureTest, AmazonsExampleOfAnObject) {
    const S3Credentials credentials{.access_key = "AKIAIOSFODNN7EXAMPLE",
                                    .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    const auto lines = signed_s3_headers("https://examplebucket.s3.amazonaws.com/test.txt", "bytes=0-9", credentials,
                                         "us-east-1", 1369353600);
    EXPECT_EQ(lines.back(),
              "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
              "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
              "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    EXPECT_THAT(lines, ::testing::Contains("x-amz-date: 20130524T000000Z"));
}

// The suite's "get-vanilla": another service, only two headers.
TEST(S3SignatureTest, AmazonsPlainestExample) {
    const SignedRequest request{.path = "/",
                                .query = "",
                                .headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}},
                                .payload_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
    EXPECT_THAT(
        sign_v4(request, {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""}, "us-east-1", "service"),
        EndsWith("Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"));
}

TEST(S3SignatureTest, ThePortIsPartOfTheHostUnlessImplied) {
    const S3Credentials credentials{.access_key = "A", .secret_key = "S", .session_token = "T"};
    const auto with = [&](const char* url) { return signed_s3_headers(url, "bytes=0-0", credentials, "r", 0).back(); };
    EXPECT_EQ(with("http://host:80/b/k"), with("http://host/b/k"));
    EXPECT_EQ(with("https://host:443/b/k"), with("https://host/b/k"));
    EXPECT_NE(with("http://host:9000/b/k"), with("http://host/b/k"));
    EXPECT_THAT(with("http://host/b/k"), HasSubstr("x-amz-date;x-amz-security-token"));
}

TEST(S3NameTest, KeysAreTakenAsTheyStand) {
    EXPECT_EQ(parse_s3_name("s3://bucket/a//b/../c?d#e%20 f").key, "a//b/../c?d#e%20 f");
    EXPECT_EQ(parse_s3_name("s3://bucket//x").key, "/x");
    for (const char* bad : {"s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://b u/key", "s3://user@host/key",
                            "s3://host:9/key", "http://bucket/key"}) {
        EXPECT_THROW(parse_s3_name(bad), InvalidArgument) << bad;
    }
}

TEST(S3NameTest, WhereObjectsLie) {
    const auto at = [](const std::string& name, const std::string& region = "", const std::string& endpoint = "") {
        return s3_url(parse_s3_name(name), {.credentials = {}, .region = region, .endpoint = endpoint});
    };
    EXPECT_EQ(at("s3://bucket/a/b.tar"), "https://bucket.s3.us-east-1.amazonaws.com/a/b.tar");
    EXPECT_EQ(at("s3://bucket/k", "eu-west-1"), "https://bucket.s3.eu-west-1.amazonaws.com/k");
    EXPECT_EQ(at("s3://bucket/k", "cn-north-1"), "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
    EXPECT_EQ(at("s3://my.bucket/k"), "https://s3.us-east-1.amazonaws.com/my.bucket/k");
    EXPECT_EQ(at("s3://Old_Bucket/k"), "https://s3.us-east-1.amazonaws.com/Old_Bucket/k");
    EXPECT_EQ(at("s3://bucket/k", "", "http://localhost:9000/"), "http://localhost:9000/bucket/k");
    EXPECT_EQ(at("s3://bucket/k", "", "HTTP://h/base//"), "http://h/base/bucket/k");
    EXPECT_EQ(at("s3://b/a b+c%~\xc3\xa9//d/../(e)*'!", "", "http://h"),
              "http://h/b/a%20b%2Bc%25~%C3%A9//d/../%28e%29%2A%27%21");
    EXPECT_THROW(at("s3://bucket/k", "", "localhost:9000"), InvalidArgument);
    EXPECT_THROW(at("s3://bucket/k", "", "ftp://localhost"), InvalidArgument);
}

TEST(S3SettingsTest, VariablesWinOverFiles) {
    const TempDir dir;
    write_file(dir / "credentials",
               "# a comment\n[default]\naws_access_key_id = DK\naws_secret_access_key=DS\n\n"
               "[work]\r\naws_access_key_id=WK\r\naws_secret_access_key=W=S\r\naws_session_token = WT\r\n");
    write_file(dir / "config",
               "[default]\nregion = eu-central-1\n[profile work]\nregion=ap-south-1\ns3 =\n  endpoint_url = "
               "http://nested\nservices = mine\nendpoint_url = http://all\n[services mine]\ns3 =\n    endpoint_url = "
               "http://s3-only\nec2 =\n    endpoint_url = http://wrong\n[broken\nno equals sign\n");
    std::map<std::string, std::string> set = {{"AWS_SHARED_CREDENTIALS_FILE", (dir / "credentials").string()},
                                              {"AWS_CONFIG_FILE", (dir / "config").string()}};
    S3Settings found = find_s3_settings(variables(set));
    EXPECT_EQ(found.credentials->access_key, "DK");
    EXPECT_EQ(found.region, "eu-central-1");
    EXPECT_EQ(found.endpoint, "");
    set["AWS_PROFILE"] = "work";
    found = find_s3_settings(variables(set));
    EXPECT_EQ(found.credentials->access_key, "WK");
    EXPECT_EQ(found.credentials->secret_key, "W=S");
    EXPECT_EQ(found.credentials->session_token, "WT");
    EXPECT_EQ(found.region, "ap-south-1");
    EXPECT_EQ(found.endpoint, "http://s3-only");
    set["AWS_ENDPOINT_URL"] = "http://all-services";
    set["AWS_DEFAULT_REGION"] = "r1";
    set["AWS_ACCESS_KEY_ID"] = "EK";
    set["AWS_SECRET_ACCESS_KEY"] = "ES";
    found = find_s3_settings(variables(set));
    EXPECT_EQ(found.credentials->access_key, "EK");
    EXPECT_EQ(found.credentials->session_token, "");  // the token of another source does not fit the key
    EXPECT_EQ(found.region, "r1");
    EXPECT_EQ(found.endpoint, "http://all-services");
    set["AWS_ENDPOINT_URL_S3"] = "http://s3";
    set["AWS_REGION"] = "r2";
    set["AWS_NO_SIGN_REQUEST"] = "true";
    found = find_s3_settings(variables(set));
    EXPECT_FALSE(found.credentials);
    EXPECT_EQ(found.region, "r2");
    EXPECT_EQ(found.endpoint, "http://s3");
}

TEST(S3SettingsTest, UsualFilesOfTheHome) {
    const TempDir home;
    std::filesystem::create_directories(home / ".aws");
    write_file(home / ".aws" / "credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=B\n");
    EXPECT_EQ(find_s3_settings(variables({{"HOME", home.path().string()}})).credentials->secret_key, "B");
    EXPECT_FALSE(find_s3_settings(variables({})).credentials);
}

TEST(S3SettingsTest, HalfOfAPairAndUnknownProfilesAreErrors) {
    EXPECT_THROW(find_s3_settings(variables({{"AWS_ACCESS_KEY_ID", "A"}})), InvalidArgument);
    EXPECT_THROW(find_s3_settings(variables({{"AWS_SECRET_ACCESS_KEY", "A"}})), InvalidArgument);
    EXPECT_THROW(find_s3_settings(variables({{"AWS_PROFILE", "nobody"}})), InvalidArgument);
    EXPECT_THROW(find_s3_settings(variables({{"AWS_ACCESS_KEY_ID", "A\r\nX: y"}, {"AWS_SECRET_ACCESS_KEY", "S"}})),
                 InvalidArgument);
}

TEST(UrlTest, BytesThatAUrlMustNotContain) {
    EXPECT_EQ(escape_url("http://h/a b\xc3\xa9%20?q=\"#f"), "http://h/a%20b%C3%A9%20?q=%22");
}

// Changes the environment of the process, so these tests must not run in parallel.
class S3RequestTest : public ::testing::Test {
  protected:
    S3RequestTest() {
        server_.put("/bucket/a%20b%2Bc//d.tar", {.bytes = "0123456789"});
        set("AWS_ENDPOINT_URL", server_.url(""));
        set("AWS_ACCESS_KEY_ID", "KEYID");
        set("AWS_SECRET_ACCESS_KEY", "SECRET");
        set("AWS_SESSION_TOKEN", "TOKEN");
        set("AWS_REGION", "r1");
        set("AWS_CONFIG_FILE", "/nowhere");
        set("AWS_SHARED_CREDENTIALS_FILE", "/nowhere");
    }
    ~S3RequestTest() override {
        for (const std::string& name : names_) {
            ::unsetenv(name.c_str());
        }
    }
    void set(const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
        names_.push_back(name);
    }

    HttpServer server_;
    std::vector<std::string> names_;
    const std::string name_ = "s3://bucket/a b+c//d.tar";
    RemoteShared shared_ = {.client = std::make_shared<HttpClient>(), .pool = std::make_shared<BlockPool>(1 << 20, 1)};
};

TEST_F(S3RequestTest, EachRequestIsSigned) {
    const RemoteFile file(name_, {}, shared_);
    EXPECT_EQ(file.name(), name_);
    std::string text(4, '?');
    file.read(3, std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(text, "3456");
    ASSERT_EQ(server_.seen().size(), 2U);
    for (SeenRequest request : server_.seen()) {
        EXPECT_THAT(request.headers["authorization"],
                    AllOf(HasSubstr("Credential=KEYID/"), HasSubstr("/r1/s3/aws4_request"), HasSubstr("Signature=")));
        EXPECT_EQ(request.headers["x-amz-security-token"], "TOKEN");
    }
}

TEST_F(S3RequestTest, WithoutCredentialsNothingIsSigned) {
    set("AWS_NO_SIGN_REQUEST", "1");
    const RemoteFile file(name_, {}, shared_);
    EXPECT_EQ(server_.seen()[0].headers.count("authorization"), 0U);
    EXPECT_EQ(server_.seen()[0].headers.count("x-amz-security-token"), 0U);
}

TEST_F(S3RequestTest, ABucketOfAnotherRegionIsFollowed) {
    server_.set_faults([](const SeenRequest& request) {
        const bool there = request.headers.at("authorization").find("/r2/s3/") != std::string::npos;
        return there ? ServerFault{}
                     : ServerFault{
                           .kind = ServerFault::Kind::status, .status = 400, .headers = "x-amz-bucket-region: r2\r\n"};
    });
    EXPECT_EQ(RemoteFile(name_, {}, shared_).size(), 10U);
}

TEST_F(S3RequestTest, RefusalsContainNoSecrets) {
    server_.set_faults([](const SeenRequest& request) {
        return ServerFault{.kind = ServerFault::Kind::status,
                           .status = 403,
                           .body = "<Error><Code>SignatureDoesNotMatch</Code><Message>" +
                                   request.headers.at("authorization") + "</Message></Error>"};
    });
    try {
        const RemoteFile file(name_, {}, shared_);
        FAIL();
    } catch (const IoError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(name_), HasSubstr("403 (SignatureDoesNotMatch)"),
                                        Not(HasSubstr("KEYID")), Not(HasSubstr("Signature="))));
    }
    server_.set_faults([&](const SeenRequest&) {
        return ServerFault{
            .kind = ServerFault::Kind::status, .status = 307, .headers = "Location: http://127.0.0.1:1/elsewhere\r\n"};
    });
    EXPECT_THROW(RemoteFile(name_, {}, shared_), IoError);  // a signed request is not redirected
}

}  // namespace
}  // namespace stoker
