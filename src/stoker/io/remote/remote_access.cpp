// The access to plain http(s) URLs, and the choice among the services.
#include "stoker/io/remote/remote_access.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/hub_access.h"
#include "stoker/io/remote/refusal.h"
#include "stoker/io/remote/s3_access.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

class PlainAccess final : public RemoteAccess {
  public:
    explicit PlainAccess(const std::string& name) : url_(escape_url(name)) { parse_url(name); }

    std::string url() const override { return url_; }

    HttpAnswer get(HttpClient& client, HttpRequest request, const ObjectRange& range) override {
        request.url = url_;
        request.headers = {"range: " + range.bytes};
        if (!range.if_match.empty()) {
            request.headers.push_back("if-match: " + range.if_match);
        }
        return client.get(request);
    }

    std::string hint(const HttpAnswer& answer) const override {
        switch (answer.status) {
            case 401:
            case 403:
                return "access is denied: check the credentials and the permissions of the object";
            case 404:
            case 410:
                return "check the path";
            default:
                return "";
        }
    }

  private:
    std::string url_;
};

}  // namespace

std::unique_ptr<RemoteAccess> make_access(const std::string& name) {
    const std::string scheme = name.substr(0, name.find("://"));
    if (scheme == "http" || scheme == "https") {
        return std::make_unique<PlainAccess>(name);
    }
    if (scheme == "s3" || scheme == "gs") {
        return std::make_unique<S3Access>(name);
    }
    if (scheme == "hf") {
        return std::make_unique<HubAccess>(name);
    }
    throw Unsupported({.where = shown_url(name),
                       .expected = "http://, https://, s3://, gs:// or hf://",
                       .got = fmt::format("{}://", scheme)});
}

HttpRequest blank_request(const RemoteOptions& options) {
    HttpRequest request;
    request.connect_time = std::min(milliseconds(10'000), std::max(milliseconds(1), options.patience));
    request.stall_time = options.stall_time;
    return request;
}

RetryLimits retry_limits(const HttpClient& client, const std::string& url, const RemoteOptions& options) {
    const bool known = client.has_answered(url);
    return {.patience = known ? options.patience : options.patience / 6, .first_pause = options.first_pause};
}

bool may_pass(const HttpAnswer& answer) {
    return answer.status == 0 ? answer.may_pass
                              : is_retried_status(answer.status) || error_code(answer) == "RequestTimeout";
}

}  // namespace stoker
