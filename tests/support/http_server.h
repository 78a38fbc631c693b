// A small HTTP server on the loopback interface for tests: objects in memory, ranges, versions, and faults of servers
// and networks on request. One thread per connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace stoker::testing {

struct SeenRequest {
    std::string path;                            // as sent, with its query
    std::map<std::string, std::string> headers;  // names in lower case
    std::uint64_t first = 0;                     // of the range
    std::uint64_t last = 0;
    bool range = false;

    std::uint64_t size() const { return last - first + 1; }
};

struct ServedObject {
    std::string bytes;
    std::string etag = "\"v1\"";
    std::string last_modified = {};
};

// The fault of one answer.
struct ServerFault {
    enum class Kind : std::uint8_t {
        none,
        status,        // `status`, with `headers` and `body`
        short_body,    // the connection ends after `bytes` of the body
        short_length,  // Content-Length and body end after `bytes`
        long_body,     // one byte more than requested
        reset,         // the connection is reset after `bytes` of the body
        no_answer,     // the connection is closed without an answer
        stall,         // nothing more is sent after `bytes` of the body
        other_range,   // a range shifted by one byte, with the correct Content-Range
        wrong_bytes,   // one bit of the body is flipped
        whole,         // the range is ignored
        garbage,       // not HTTP
    };
    Kind kind = Kind::none;
    int status = 500;
    std::size_t bytes = 0;
    std::string headers = {};
    std::string body = {};
};

class HttpServer {
  public:
    using Faults = std::function<ServerFault(const SeenRequest&)>;

    HttpServer() { start(); }
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    ~HttpServer() { stop(); }

    // Listens, after a stop on the same port.
    void start() {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int yes = 1;
        ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port_);
        socklen_t size = sizeof address;
        auto* general = reinterpret_cast<sockaddr*>(&address);
        if (::bind(listener_, general, size) != 0 || ::listen(listener_, 64) != 0 ||
            ::getsockname(listener_, general, &size) != 0) {
            throw std::runtime_error("no loopback port to listen on");
        }
        port_ = ntohs(address.sin_port);
        stopping_ = false;
        acceptor_ = std::thread([this] { accept_all(); });
    }

    // Closes the port and every connection.
    void stop() {
        if (!acceptor_.joinable()) {
            return;
        }
        stopping_ = true;
        ::shutdown(listener_, SHUT_RDWR);
        acceptor_.join();
        ::close(listener_);
        {
            const std::scoped_lock lock(mutex_);
            for (const int connection : open_) {
                ::shutdown(connection, SHUT_RDWR);
            }
        }
        for (std::thread& thread : connections_) {
            thread.join();
        }
        connections_.clear();
    }

    std::uint16_t port() const { return port_; }
    std::string url(const std::string& path = "/object") const {
        return fmt::format("http://127.0.0.1:{}{}", port_, path);
    }

    void put(const std::string& path, ServedObject object) {
        const std::scoped_lock lock(mutex_);
        objects_[path] = std::move(object);
    }
    void set_faults(Faults faults) {
        const std::scoped_lock lock(mutex_);
        faults_ = std::move(faults);
    }
    std::vector<SeenRequest> seen() const {
        const std::scoped_lock lock(mutex_);
        return seen_;
    }
    void forget_seen() {
        const std::scoped_lock lock(mutex_);
        seen_.clear();
    }

  private:
    using Kind = ServerFault::Kind;

    void accept_all() {
        while (!stopping_) {
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection < 0) {
                continue;
            }
            {
                const std::scoped_lock lock(mutex_);
                open_.insert(connection);
            }
            connections_.emplace_back([this, connection] { talk(connection); });
        }
    }

    void talk(int connection) {
        std::string pending;
        while (!stopping_ && serve_one(connection, pending)) {
        }
        const std::scoped_lock lock(mutex_);
        open_.erase(connection);
        ::close(connection);
    }

    static bool send_all(int connection, std::string_view text) {
        while (!text.empty()) {
            const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0) {
                return false;
            }
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    static SeenRequest parse(const std::string& head) {
        SeenRequest request;
        const std::size_t space = head.find(' ');
        request.path = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
        std::size_t line = head.find("\r\n") + 2;
        while (line < head.size()) {
            const std::size_t end = std::min(head.find("\r\n", line), head.size());
            const std::size_t colon = head.find(':', line);
            std::string name = head.substr(line, colon - line);
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            request.headers[name] = head.substr(colon + 2, end - colon - 2);
            line = end + 2;
        }
        unsigned long long first = 0;
        unsigned long long last = 0;
        if (std::sscanf(request.headers["range"].c_str(), "bytes=%llu-%llu", &first, &last) == 2) {
            request.range = true;
            request.first = first;
            request.last = last;
        }
        return request;
    }

    bool serve_one(int connection, std::string& pending) {
        std::size_t end = 0;
        while ((end = pending.find("\r\n\r\n")) == std::string::npos) {
            char buffer[4096];
            const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
            if (got <= 0) {
                return false;
            }
            pending.append(buffer, static_cast<std::size_t>(got));
        }
        const SeenRequest request = parse(pending.substr(0, end + 2));
        pending.erase(0, end + 4);
        Faults faults;
        ServedObject object;
        bool found = false;
        {
            const std::scoped_lock lock(mutex_);
            seen_.push_back(request);
            faults = faults_;
            const auto each = objects_.find(request.path);
            found = each != objects_.end();
            object = found ? each->second : ServedObject();
        }
        const ServerFault fault = faults ? faults(request) : ServerFault{};
        if (fault.kind == Kind::status) {
            return answer(connection, fault.status, fault.headers, fault.body);
        }
        if (!found) {
            return answer(connection, 404, "", "none");
        }
        return send_object(connection, request, object, fault);
    }

    static bool answer(int connection, int status, const std::string& headers, const std::string& body) {
        return send_all(connection, fmt::format("HTTP/1.1 {} X\r\n{}Content-Length: {}\r\n\r\n{}", status, headers,
                                                body.size(), body));
    }

    static std::string version_headers(const ServedObject& object) {
        return (object.etag.empty() ? "" : "ETag: " + object.etag + "\r\n") +
               (object.last_modified.empty() ? "" : "Last-Modified: " + object.last_modified + "\r\n");
    }

    bool send_object(int connection, SeenRequest request, const ServedObject& object, const ServerFault& fault) const {
        const std::uint64_t total = object.bytes.size();
        const auto if_match = request.headers.find("if-match");
        if (if_match != request.headers.end() && if_match->second != object.etag) {
            return answer(connection, 412, version_headers(object), "");
        }
        if (!request.range || fault.kind == Kind::whole) {
            return answer(connection, 200, version_headers(object), object.bytes);
        }
        if (request.first >= total) {
            return answer(connection, 416, fmt::format("Content-Range: bytes */{}\r\n", total), "");
        }
        if (fault.kind == Kind::other_range) {
            const bool before = request.first > 0;
            request.first += before ? ~std::uint64_t{0} : 1;
            request.last += before ? ~std::uint64_t{0} : 1;
        }
        request.last = std::min(request.last, total - 1);
        request.first = std::min(request.first, request.last);
        std::string body = object.bytes.substr(request.first, request.size());
        std::string head = fmt::format("HTTP/1.1 206 X\r\nContent-Range: bytes {}-{}/{}\r\n{}", request.first,
                                       request.last, total, version_headers(object));
        return send_range(connection, head, body, fault);
    }

    bool send_range(int connection, const std::string& head, std::string body, const ServerFault& fault) const {
        const std::size_t some = std::min(fault.bytes, body.empty() ? 0 : body.size() - 1);
        std::size_t length = body.size();
        switch (fault.kind) {
            case Kind::no_answer:
                return false;
            case Kind::garbage:
                send_all(connection, "\x16\x03 what?\r\n\r\n");
                return false;
            case Kind::long_body:
                body += '!';
                length = body.size();
                break;
            case Kind::wrong_bytes:
                body[some] = static_cast<char>(body[some] ^ 0x10);
                break;
            case Kind::short_length:
                length = some;
                [[fallthrough]];
            case Kind::short_body:
            case Kind::reset:
            case Kind::stall:
                body.resize(some);
                break;
            default:
                break;
        }
        if (!send_all(connection, fmt::format("{}Content-Length: {}\r\n\r\n{}", head, length, body))) {
            return false;
        }
        if (fault.kind == Kind::stall) {
            char byte = 0;
            while (!stopping_ && ::recv(connection, &byte, 1, 0) > 0) {
            }
            return false;
        }
        if (fault.kind == Kind::reset) {
            const linger now{.l_onoff = 1, .l_linger = 0};
            ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        return fault.kind != Kind::short_body && fault.kind != Kind::reset;
    }

    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<bool> stopping_{false};
    std::thread acceptor_;
    mutable std::mutex mutex_;
    std::set<int> open_;
    std::list<std::thread> connections_;
    std::map<std::string, ServedObject> objects_;
    Faults faults_;
    std::vector<SeenRequest> seen_;
};

}  // namespace stoker::testing
