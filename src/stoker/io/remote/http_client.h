// GET requests over libcurl: many threads at once, each with a connection of its own that is kept alive for whoever
// asks next. What comes back is reported, not judged: retries and the meaning of a status are the caller's.
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

namespace stoker {

struct HttpRequest {
    std::string url;
    std::vector<std::string> headers;        // "Name: value"
    std::vector<std::span<std::byte>> into;  // where the body of a 206 answer goes; a longer one is broken off
    std::size_t whole_bytes = 0;             // the longest body of a 200 answer that is wanted
    bool follow = true;                      // redirects: to http and https, from https to https only
    std::chrono::milliseconds connect_time{10'000};
    std::chrono::seconds stall_time{10};  // broken off after so long without a byte worth mentioning
    const std::atomic<bool>* cancelled = nullptr;
};

struct HttpAnswer {
    int status = 0;                                            // 0: none came
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::size_t received = 0;                                  // bytes of `into` that were filled
    std::vector<std::byte> body;  // of a 200 answer; of any but 200 and 206, the first few KiB
    std::string failure;          // why the transfer broke; empty where it came to its end
    bool refused = false;         // it was broken off on this side: more came than was wanted
    bool may_pass = false;        // of a failure: another try could do better

    std::optional<std::string_view> header(std::string_view name) const;
};

class HttpClient {
  public:
    HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;
    ~HttpClient();

    HttpAnswer get(const HttpRequest& request);

    // Whether the host and port of `url` ever answered: one that did is worth waiting for.
    bool has_answered(const std::string& url) const;

  private:
    class Handle;

    std::unique_ptr<Handle> take();
    void put_back(std::unique_ptr<Handle> handle);

    mutable std::mutex mutex_;
    std::set<std::string> answered_;             // authorities
    std::vector<std::unique_ptr<Handle>> idle_;  // the last one used is the next one: its connection is the freshest
};

}  // namespace stoker
