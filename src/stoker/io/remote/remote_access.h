// How the name of a remote object becomes requests: its URL, the credentials, the redirects that are followed, and the
// advice after a refusal. One class for each service; retries and the checks of answers are RemoteObject's.
#pragma once

#include <memory>
#include <string>

#include "stoker/io/byte_file.h"
#include "stoker/io/remote/http_client.h"
#include "stoker/io/remote/retry.h"

namespace stoker {

// The wanted bytes, and the version of the object that they belong to.
struct ObjectRange {
    std::string bytes;     // the value of Range: "bytes=0-99"
    std::string if_match;  // the value of If-Match; empty: none
};

class RemoteAccess {
  public:
    RemoteAccess() = default;
    RemoteAccess(const RemoteAccess&) = delete;
    RemoteAccess& operator=(const RemoteAccess&) = delete;
    virtual ~RemoteAccess() = default;

    // The object's URL, at the host that the requests begin with.
    virtual std::string url() const = 0;

    // Sends `request`, whose URL and headers are set here. Thread-safe.
    virtual HttpAnswer get(HttpClient& client, HttpRequest request, const ObjectRange& range) = 0;

    // True if a refused request should be sent again, because now it would be another one. Not thread-safe.
    virtual bool adapt(const HttpAnswer& /*answer*/) { return false; }

    // Advice for the user after a final refusal; may be empty.
    virtual std::string hint(const HttpAnswer& answer) const = 0;
};

// Throws InvalidArgument for a name or settings that are not valid, Unsupported for an unknown scheme.
std::unique_ptr<RemoteAccess> make_access(const std::string& name);

// The time limits of `options`, without URL and headers.
HttpRequest blank_request(const RemoteOptions& options);

// A server that never answered gets a sixth of the patience.
RetryLimits retry_limits(const HttpClient& client, const std::string& url, const RemoteOptions& options);

// True for an answer, or a failure without one, after which the same request may succeed.
bool may_pass(const HttpAnswer& answer);

}  // namespace stoker
