// GET requests over libcurl. Like the program curl, it trusts the certificates that CURL_CA_BUNDLE, SSL_CERT_FILE or
// SSL_CERT_DIR name, else the system's. Thread-safe: every running request has its own connection, which later requests
// reuse. Every answer is returned, whatever its status; retries and the meaning of a status are up to the caller.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/io/remote/address_kind.h"

namespace stoker {

// The server that a connection leads to.
struct HttpPeer {
    AddressKind kind = AddressKind::loopback;
    std::string place;     // address and port
    bool proxied = false;  // the address is that of a proxy
};

struct HttpRequest {
    std::string url;
    std::vector<std::string> headers;        // "Name: value"
    std::vector<std::span<std::byte>> into;  // receives the body of a 206 answer; a longer body ends the transfer
    std::size_t whole_bytes = 0;             // longest body of a 200 answer that is accepted
    // Redirects to http and https, from https to https only. A redirect to an address that is not global is refused,
    // unless the first request went to one of the same kind or STOKER_PRIVATE_REDIRECTS is 1.
    bool follow = true;
    // The server that named `url` by a redirect, if the caller follows it itself: the rule above counts from there.
    std::optional<HttpPeer> named_by = {};
    std::chrono::milliseconds connect_time{10'000};
    std::chrono::seconds stall_time{10};  // a transfer of almost no bytes for so long is ended
    const std::atomic<bool>* cancelled = nullptr;
};

struct HttpAnswer {
    int status = 0;                                            // 0: no answer
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::size_t received = 0;                                  // bytes of `into` that were filled
    std::vector<std::byte> body;   // of a 200 answer; of statuses other than 200 and 206, the first 4 KiB
    std::string failure;           // why the transfer failed; empty if it was completed
    std::string hint;              // of a failure: what to do; may be empty
    std::string redirect;          // of a redirect that was not followed: the whole URL, which may hold a signature
    std::optional<HttpPeer> peer;  // that sent the answer
    bool refused = false;          // the client ended it, because of a body that is too long
    bool may_pass = false;         // of a failure: a retry could succeed

    std::optional<std::string_view> header(std::string_view name) const;
};

class HttpClient {
  public:
    HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;
    ~HttpClient();

    HttpAnswer get(const HttpRequest& request);

    // True if the host and port of `url` ever answered: then it is worth waiting for.
    bool has_answered(const std::string& url) const;

  private:
    class Handle;

    std::unique_ptr<Handle> take();
    void put_back(std::unique_ptr<Handle> handle);

    mutable std::mutex mutex_;
    std::set<std::string> answered_;  // authorities
    std::vector<std::unique_ptr<Handle>>
        idle_;  // used last in, first out: the newest connection is least likely to be closed
};

}  // namespace stoker
