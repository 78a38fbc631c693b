#include "stoker/io/remote/s3_access.h"

#include <ctime>
#include <utility>

#include "stoker/io/remote/gcs_settings.h"

namespace stoker {

S3Access::S3Access(const std::string& name, bool folder)
    : google_(name.starts_with("gs://")),
      name_(parse_s3_name(name, folder)),
      settings_(google_ ? find_gcs_settings() : find_s3_settings()) {
    url();  // throws for an endpoint without a scheme
}

HttpAnswer S3Access::send(HttpClient& client, HttpRequest& request, const std::string& range) const {
    if (settings_.credentials) {
        auto lines =
            signed_s3_headers(request.url, range, *settings_.credentials, s3_region(settings_), std::time(nullptr));
        request.headers.insert(request.headers.end(), lines.begin(), lines.end());
        request.follow = false;  // a signature is valid for one host
        return client.get(request);
    }
    if (!range.empty()) {
        request.headers.push_back("range: " + range);
    }
    if (!settings_.bearer.empty()) {
        request.headers.push_back("authorization: Bearer " + settings_.bearer);
        request.follow = false;
    }
    return client.get(request);
}

HttpAnswer S3Access::get(HttpClient& client, HttpRequest request, const ObjectRange& range) {
    request.url = url();
    if (!range.if_match.empty()) {
        request.headers.push_back("if-match: " + range.if_match);
    }
    return send(client, request, range.bytes);
}

HttpAnswer S3Access::list(HttpClient& client, HttpRequest request, const std::string& query) const {
    request.url = s3_url({.bucket = name_.bucket, .key = ""}, settings_) + "?" + query;
    return send(client, request, "");
}

bool S3Access::adapt(const HttpAnswer& answer) {
    const auto region = answer.header("x-amz-bucket-region");
    const bool elsewhere = answer.status == 301 || answer.status == 307 || answer.status == 400;
    if (!elsewhere || !region || region->empty() || *region == s3_region(settings_) || !settings_.region_is_open) {
        return false;
    }
    settings_.region_is_open = false;
    settings_.region = *region;
    return true;
}

std::string S3Access::hint(const HttpAnswer& answer) const {
    const bool signs = settings_.credentials.has_value();
    if (answer.status == 401 || answer.status == 403) {
        if (google_) {
            return signs ? "check that these HMAC keys may read it, and the clock"
                   : settings_.bearer.empty()
                       ? "no keys were found (GS_ACCESS_KEY_ID, GCS_OAUTH_TOKEN, ~/.boto)"
                       : "check that the token may read it, and that it is not older than an hour";
        }
        return signs ? "check that these S3 credentials may read it, and key, region and clock"
                     : "no S3 credentials were found (AWS_ACCESS_KEY_ID, AWS_PROFILE)";
    }
    if (answer.status == 404 || answer.status == 410) {
        return "check bucket, key and endpoint";
    }
    if (answer.status >= 300 && answer.status < 400) {
        return google_ ? "a redirect that cannot be followed" : "check the region (AWS_REGION)";
    }
    return "";
}

}  // namespace stoker
