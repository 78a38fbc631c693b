// The canonical request, the string to sign and the derived keys, in the order of Amazon's documentation.
#include "stoker/io/remote/s3.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::string_view kNoPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_bucket(std::string_view name) {
    return !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
        return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
    });
}

// A bucket with a dot would give a host name that the certificate of *.s3.amazonaws.com does not cover.
bool fits_host(std::string_view bucket) {
    return bucket.size() >= 3 && bucket.size() <= 63 && bucket.front() != '-' && bucket.back() != '-' &&
           std::all_of(bucket.begin(), bucket.end(), [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

std::string sha256(std::string_view text) {
    std::string value(SHA256_DIGEST_LENGTH, '\0');
    ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(value.data()));
    return value;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
    std::string value(SHA256_DIGEST_LENGTH, '\0');
    if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(),
               reinterpret_cast<unsigned char*>(value.data()), nullptr) == nullptr) {
        throw InternalError({.where = "OpenSSL", .expected = "an HMAC", .got = "a failure"});
    }
    return value;
}

std::string hex_text(std::string_view bytes) {
    return fmt::format("{:02x}", fmt::join(std::vector<unsigned char>(bytes.begin(), bytes.end()), ""));
}

std::string value_of(const SignedRequest& request, std::string_view header) {
    for (const auto& [name, value] : request.headers) {
        if (name == header) {
            return value;
        }
    }
    throw InternalError({.where = "S3 signature", .expected = std::string(header), .got = "no such header"});
}

// The Host header as libcurl sends it: without the default port of the scheme.
std::string host_header(const Url& url) {
    const std::string_view usual = url.scheme == "https" ? ":443" : ":80";
    std::string host = url.authority;
    if (host.ends_with(usual)) {
        host.resize(host.size() - usual.size());
    }
    return host;
}

}  // namespace

S3Name parse_s3_name(std::string_view name, bool folder) {
    const bool google = name.starts_with("gs://");
    const std::string_view scheme = google ? "gs://" : "s3://";
    const std::string_view rest = name.substr(std::min(name.size(), scheme.size()));
    const std::size_t slash = rest.find('/');
    S3Name parts{.bucket = std::string(rest.substr(0, slash)),
                 .key = slash == std::string_view::npos ? "" : std::string(rest.substr(slash + 1))};
    if (shown_url(name) != name) {
        throw InvalidArgument({.where = shown_url(name),
                               .expected = fmt::format("{}BUCKET/KEY", scheme),
                               .got = "a user name or a password before the bucket",
                               .hint = google ? "keys are read from GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, or from "
                                                "the boto file"
                                              : "credentials are read from AWS_ACCESS_KEY_ID and "
                                                "AWS_SECRET_ACCESS_KEY, or from the AWS credentials file"});
    }
    const bool lacks_key = parts.key.empty() && !folder;
    if (!name.starts_with(scheme) || !is_bucket(parts.bucket) || lacks_key) {
        throw InvalidArgument(
            {.where = std::string(name),
             .expected = fmt::format("{}BUCKET/KEY, the bucket of letters, digits, '-', '.' and '_'", scheme),
             .got = lacks_key ? "no key" : fmt::format("the bucket \"{}\"", parts.bucket)});
    }
    return parts;
}

std::string s3_region(const S3Settings& settings) {
    return settings.region.empty() ? "us-east-1" : settings.region;
}

std::string s3_url(const S3Name& name, const S3Settings& settings) {
    const std::string key = percent_encode(name.key, "/");
    if (!settings.endpoint.empty()) {
        const Url endpoint = parse_url(settings.endpoint);
        if (endpoint.scheme != "http" && endpoint.scheme != "https") {
            throw InvalidArgument(
                {.where = "the S3 endpoint", .expected = "http:// or https://", .got = shown_url(settings.endpoint)});
        }
        const std::size_t end = endpoint.path.find_last_not_of('/');
        const std::string path = end == std::string::npos ? "" : endpoint.path.substr(0, end + 1);
        return fmt::format("{}://{}{}/{}/{}", endpoint.scheme, endpoint.authority, path, name.bucket, key);
    }
    const std::string region = s3_region(settings);
    const std::string host =
        fmt::format("s3.{}.amazonaws.com{}", percent_encode(region, ""), region.starts_with("cn-") ? ".cn" : "");
    return fits_host(name.bucket) ? fmt::format("https://{}.{}/{}", name.bucket, host, key)
                                  : fmt::format("https://{}/{}/{}", host, name.bucket, key);
}

std::string sign_v4(const SignedRequest& request, const S3Credentials& credentials, std::string_view region,
                    std::string_view service) {
    std::string headers;
    std::string names;
    for (const auto& [name, value] : request.headers) {
        headers += fmt::format("{}:{}\n", name, value);
        names += (names.empty() ? "" : ";") + name;
    }
    const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, request.query,
                                              headers, names, request.payload_sha256);
    const std::string time = value_of(request, "x-amz-date");
    const std::string date = time.substr(0, 8);
    const std::string scope = fmt::format("{}/{}/{}/aws4_request", date, region, service);
    const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, hex_text(sha256(canonical)));
    const std::string day_key = hmac_sha256("AWS4" + credentials.secret_key, date);
    const std::string service_key = hmac_sha256(hmac_sha256(day_key, region), service);
    const std::string signature = hmac_sha256(hmac_sha256(service_key, "aws4_request"), to_sign);
    return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, credentials.access_key, scope,
                       names, hex_text(signature));
}

std::vector<std::string> signed_s3_headers(const std::string& url, const std::string& range,
                                           const S3Credentials& credentials, std::string_view region, std::time_t now) {
    const Url parts = parse_url(url);
    SignedRequest request{.path = parts.path,
                          .query = parts.query,
                          .headers = {{"host", host_header(parts)},
                                      {"range", range},
                                      {"x-amz-content-sha256", std::string(kNoPayload)},
                                      {"x-amz-date", fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now))}},
                          .payload_sha256 = std::string(kNoPayload)};
    if (range.empty()) {
        request.headers.erase(request.headers.begin() + 1);
    }
    if (!credentials.session_token.empty()) {
        request.headers.emplace_back("x-amz-security-token", credentials.session_token);
    }
    std::vector<std::string> lines;
    for (const auto& [name, value] : request.headers) {
        if (name != "host") {  // libcurl adds it
            lines.push_back(fmt::format("{}: {}", name, value));
        }
    }
    lines.push_back("authorization: " + sign_v4(request, credentials, region, "s3"));
    return lines;
}

}  // namespace stoker
