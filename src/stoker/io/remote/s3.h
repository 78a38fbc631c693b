// S3 objects over HTTP: the URL of s3://bucket/key, and the signature of a request for it (AWS Signature Version 4,
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/io/remote/s3_settings.h"

namespace stoker {

// Bucket and key of "s3://bucket/key" or "gs://bucket/key". The key is not decoded: '%', '?', '#' and "//" are parts of
// it. Throws InvalidArgument if one of the two is missing or the bucket's name is not valid; in the name of a folder
// the key may be missing.
struct S3Name {
    std::string bucket;
    std::string key;
};
S3Name parse_s3_name(std::string_view name, bool folder = false);

// The object's URL; without a key that of the bucket, which ends with '/'. With a configured endpoint the bucket is the
// first part of the path. Amazon's has it in the host name, except for buckets whose names a host cannot have.
std::string s3_url(const S3Name& name, const S3Settings& settings);

// The region that requests are signed for.
std::string s3_region(const S3Settings& settings);

// The signed parts of a request. Path and query are percent-encoded already: S3 signs the path that is sent, while
// other services encode it twice. Header names are in lower case and sorted; `host` and `x-amz-date` are required.
struct SignedRequest {
    std::string method = "GET";
    std::string path;
    std::string query = {};
    std::vector<std::pair<std::string, std::string>> headers;
    std::string payload_sha256;  // in hex
};

// The value of the Authorization header.
std::string sign_v4(const SignedRequest& request, const S3Credentials& credentials, std::string_view region,
                    std::string_view service);

// All headers, "Name: value", of a signed GET of `url` at time `now`; `range` is the value of the Range header, empty
// for none. The parameters of a query must be sorted by their names.
std::vector<std::string> signed_s3_headers(const std::string& url, const std::string& range,
                                           const S3Credentials& credentials, std::string_view region, std::time_t now);

}  // namespace stoker
