// One libcurl easy handle per running request. Handles are reused, and with them connections, TLS sessions and resolved
// names.
#include "stoker/io/remote/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <new>

#include "stoker/base/ascii.h"
#include "stoker/base/environment.h"
#include "stoker/base/error.h"
#include "stoker/io/remote/address_kind.h"
#include "stoker/io/remote/certificates.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr std::size_t kErrorBytes = 4096;  // of an error's body that are kept: enough for S3's XML
constexpr curl_off_t kMostErrorBytes = 1 << 20;
constexpr std::size_t kMostHeaderBytes = 64 << 10;
constexpr std::size_t kMostIdle = 32;
constexpr long kReceiveBuffer = 256 << 10;
constexpr long kLeastSpeed = 1000;  // bytes a second

void start_curl() {
    static const CURLcode code = ::curl_global_init(CURL_GLOBAL_DEFAULT);  // no cleanup: other code may use curl too
    if (code != CURLE_OK) {
        throw IoError({.where = "libcurl", .expected = "to start", .got = ::curl_easy_strerror(code)});
    }
}

std::string hint_of(CURLcode code) {
    const std::string name = find_certificates().variable;
    if (code == CURLE_SSL_CACERT_BADFILE) {
        return name.empty() ? "install the system's CA certificates, or name a file of them in SSL_CERT_FILE"
                            : fmt::format("{} must name a PEM file of CA certificates", name);
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        return fmt::format("to trust a CA of your own, name its PEM file in {}", name.empty() ? "SSL_CERT_FILE" : name);
    }
    return "";
}

// True if the environment names a proxy, as libcurl reads it.
bool has_proxy() {
    constexpr std::array kNames = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    return std::ranges::any_of(kNames, [](const char* name) { return !environment_variable(name).empty(); });
}

// True if `no_proxy` names the host: "*", the host, or a domain that it is in ("corp", ".corp"). Networks such as
// 10.0.0.0/8 are not read, so that a redirect is rather refused.
bool bypasses_proxy(const std::string& url) {
    std::string host = lower_case(parse_url(url).authority);
    host = host.substr(0, host.find_last_of(']') == host.npos ? host.rfind(':') : host.find(']') + 1);
    std::string names = environment_variable("no_proxy");
    names = lower_case(names.empty() ? environment_variable("NO_PROXY") : names);
    for (std::size_t at = 0; at < names.size();) {
        const std::size_t end = std::min(names.find_first_of(", ", at), names.size());
        std::string_view name = std::string_view(names).substr(at, end - at);
        name.remove_prefix(name.starts_with('.') ? 1 : 0);
        const bool within =
            host.size() > name.size() && host.ends_with(name) && host[host.size() - name.size() - 1] == '.';
        if (!name.empty() && (name == "*" || host == name || within)) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

// State of one transfer, shared by the callbacks.
struct Transfer {
    const HttpRequest& request;
    HttpAnswer answer = {};
    std::size_t header_bytes = 0;
    std::size_t part = 0;      // of request.into
    std::size_t written = 0;   // in that part
    std::string refusal = {};  // why a callback ended the transfer
    std::string hint = {};
    std::optional<HttpPeer> first = request.named_by;

    std::size_t refuse(const char* why) {
        refusal = why;
        return 0;
    }

    // Called with the address that the connection has, after the look-up of its name and before each request, so also
    // after each redirect. Behind a proxy the first address is the proxy's, which says nothing about the server: only
    // the same address is then allowed again, and the proxy decides what it fetches.
    bool allows(const std::string& address, int port) {
        const AddressKind kind = address_kind(address);
        const std::string place = fmt::format("{} {}", address, port);
        if (!first) {
            first = HttpPeer{kind, place, has_proxy() && !bypasses_proxy(request.url)};
        }
        answer.peer = HttpPeer{kind, place, first->proxied};
        const bool alike = first->proxied ? place == first->place : kind == first->kind;
        if (kind == AddressKind::global || alike || environment_variable("STOKER_PRIVATE_REDIRECTS") == "1") {
            return true;
        }
        refusal = fmt::format("a redirect from a {} to a {} address ({})", address_kind_name(first->kind),
                              address_kind_name(kind), address);
        hint = "set STOKER_PRIVATE_REDIRECTS=1 if this server may name addresses inside your network";
        return false;
    }

    void begin_answer(std::string_view line) {
        answer.headers.clear();
        const std::size_t space = line.find(' ');
        answer.status = 0;
        for (const char c : space == std::string_view::npos ? std::string_view() : line.substr(space + 1, 3)) {
            answer.status = c >= '0' && c <= '9' ? answer.status * 10 + (c - '0') : 0;
        }
    }

    std::size_t take_header(std::string_view line) {
        header_bytes += line.size();
        if (header_bytes > kMostHeaderBytes) {
            return refuse("more than 64 KiB of headers");
        }
        const std::size_t size = line.size();
        if (line.starts_with("HTTP/")) {  // each redirect has its own
            begin_answer(line);
            return size;
        }
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos) {
            std::string name = lower_case(line.substr(0, colon));
            std::string_view value = line.substr(colon + 1);
            while (!value.empty() && std::strchr(" \t", value.front()) != nullptr) {
                value.remove_prefix(1);
            }
            while (!value.empty() && std::strchr(" \t\r\n", value.back()) != nullptr) {
                value.remove_suffix(1);
            }
            answer.headers.emplace_back(std::move(name), value);
        }
        return size;
    }

    std::size_t take_body(std::span<const std::byte> bytes) {
        const std::size_t size = bytes.size();
        if (answer.status == 206) {
            return take_range(bytes) ? size : refuse("a longer body than requested");
        }
        if (answer.status == 200) {
            if (answer.body.size() + size > request.whole_bytes) {
                return refuse("the whole object instead of a range of it");
            }
        } else {
            bytes = bytes.first(std::min(size, kErrorBytes - answer.body.size()));
        }
        answer.body.insert(answer.body.end(), bytes.begin(), bytes.end());
        return size;
    }

    bool take_range(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            if (part == request.into.size()) {
                return false;
            }
            const std::span<std::byte> room = request.into[part].subspan(written);
            const std::size_t some = std::min(room.size(), bytes.size());
            std::memcpy(room.data(), bytes.data(), some);
            bytes = bytes.subspan(some);
            written += some;
            answer.received += some;
            if (written == request.into[part].size()) {
                ++part;
                written = 0;
            }
        }
        return true;
    }
};

// No exception may unwind through libcurl. Out of memory ends the transfer.
template <typename Take>
std::size_t guarded(void* transfer, Take take) {
    try {
        return take(*static_cast<Transfer*>(transfer));
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* transfer) {
    return guarded(transfer, [&](Transfer& to) { return to.take_header({data, size * count}); });
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* transfer) {
    return guarded(transfer, [&](Transfer& to) { return to.take_body(std::as_bytes(std::span(data, size * count))); });
}

// NOLINTNEXTLINE(readability-non-const-parameter): libcurl gives the signature
int on_request(void* transfer, char* address, char*, int port, int) {
    const std::size_t allowed = guarded(transfer, [&](Transfer& to) { return to.allows(address, port) ? 1U : 0U; });
    return allowed == 1 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// Also ends the endless body of an error, and of a redirect, which libcurl reads without calling on_body.
int on_progress(void* transfer, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
    return static_cast<int>(guarded(transfer, [&](Transfer& to) {
        const bool endless = to.answer.status >= 300 && received > kMostErrorBytes;
        if (endless) {
            to.refuse("a redirect or a refusal of more than 1 MiB");
        }
        return endless || (to.request.cancelled != nullptr && to.request.cancelled->load()) ? 1U : 0U;
    }));
}

// Failures of the request or the configuration: a retry would fail too.
bool is_lasting(CURLcode code) {
    switch (code) {
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_URL_MALFORMAT:
        case CURLE_NOT_BUILT_IN:
        case CURLE_TOO_MANY_REDIRECTS:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_ABORTED_BY_CALLBACK:
            return true;
        default:
            return false;
    }
}

}  // namespace

class HttpClient::Handle {
  public:
    Handle() : curl_(made()) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { ::curl_easy_cleanup(curl_); }

    HttpAnswer perform(const HttpRequest& request) {
        Transfer transfer{.request = request};
        std::array<char, CURL_ERROR_SIZE> reason{};
        ::curl_easy_reset(curl_);  // keeps the connections
        set_up(transfer, reason.data());
        curl_slist* list = nullptr;
        for (const std::string& line : request.headers) {
            list = ::curl_slist_append(list, line.c_str());
        }
        set(CURLOPT_HTTPHEADER, list);
        const CURLcode code = ::curl_easy_perform(curl_);
        ::curl_slist_free_all(list);
        if (char* next = nullptr; ::curl_easy_getinfo(curl_, CURLINFO_REDIRECT_URL, &next) == CURLE_OK && next) {
            transfer.answer.redirect = escape_url(next);
        }
        set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
        if (code != CURLE_OK) {
            // After a failed lookup the handle keeps its buffer and refuses new options, so the next request gets a new
            // one.
            ::curl_easy_cleanup(std::exchange(curl_, nullptr));
            curl_ = made();
            transfer.answer.refused = !transfer.refusal.empty();
            transfer.answer.hint = transfer.refusal.empty() ? hint_of(code) : transfer.hint;
            transfer.answer.may_pass = !is_lasting(code);
            transfer.answer.failure = !transfer.refusal.empty() ? transfer.refusal
                                      : reason[0] != '\0'       ? std::string(reason.data())
                                                                : ::curl_easy_strerror(code);
        }
        return std::move(transfer.answer);
    }

  private:
    static CURL* made() {
        CURL* curl = ::curl_easy_init();
        if (curl == nullptr) {
            throw IoError({.where = "libcurl", .expected = "a handle", .got = "none"});
        }
        return curl;
    }

    template <typename Value>
    void set(CURLoption option, Value value) {
        const CURLcode code = ::curl_easy_setopt(curl_, option, value);
        if (code != CURLE_OK) {
            throw IoError({.where = "libcurl", .expected = "an option it knows", .got = ::curl_easy_strerror(code)});
        }
    }

    void set_up(Transfer& transfer, char* reason) {
        const HttpRequest& request = transfer.request;
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_ERRORBUFFER, reason);
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_PATH_AS_IS, 1L);  // S3 keys may contain "//" and "/../"
        set(CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
        set(CURLOPT_PROTOCOLS_STR, "http,https");
        set(CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https") ? "https" : "http,https");
        set(CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
        set(CURLOPT_MAXREDIRS, 5L);
        set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // one connection per request
        set(CURLOPT_BUFFERSIZE, kReceiveBuffer);
        set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_time.count()));
        set(CURLOPT_LOW_SPEED_LIMIT, kLeastSpeed);
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_time.count()));
        set(CURLOPT_HEADERFUNCTION, on_header);
        set(CURLOPT_HEADERDATA, &transfer);
        set(CURLOPT_WRITEFUNCTION, on_body);
        set(CURLOPT_WRITEDATA, &transfer);
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_XFERINFOFUNCTION, on_progress);
        set(CURLOPT_XFERINFODATA, &transfer);
        set(CURLOPT_PREREQFUNCTION, on_request);
        set(CURLOPT_PREREQDATA, &transfer);
        set_certificates();
    }

    void set_certificates() {
        const Certificates certificates = find_certificates();
        if (!certificates.file.empty()) {
            set(CURLOPT_CAINFO, certificates.file.c_str());
        }
        if (!certificates.folder.empty()) {
            set(CURLOPT_CAPATH, certificates.folder.c_str());
        }
    }

    CURL* curl_;
};

std::optional<std::string_view> HttpAnswer::header(std::string_view name) const {
    for (const auto& [found, value] : headers) {
        if (found == name) {
            return value;
        }
    }
    return std::nullopt;
}

HttpClient::HttpClient() {
    start_curl();
}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::get(const HttpRequest& request) {
    std::unique_ptr<Handle> handle = take();
    HttpAnswer answer = handle->perform(request);
    put_back(std::move(handle));
    if (answer.status != 0 && !has_answered(request.url)) {
        const std::scoped_lock lock(mutex_);
        answered_.insert(parse_url(request.url).authority);
    }
    return answer;
}

bool HttpClient::has_answered(const std::string& url) const {
    const std::scoped_lock lock(mutex_);
    return answered_.contains(parse_url(url).authority);
}

std::unique_ptr<HttpClient::Handle> HttpClient::take() {
    {
        const std::scoped_lock lock(mutex_);
        if (!idle_.empty()) {
            std::unique_ptr<Handle> handle = std::move(idle_.back());
            idle_.pop_back();
            return handle;
        }
    }
    return std::make_unique<Handle>();
}

void HttpClient::put_back(std::unique_ptr<Handle> handle) {
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < kMostIdle) {
        idle_.push_back(std::move(handle));
    }
}

}  // namespace stoker
