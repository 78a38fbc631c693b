// Each answer is checked on its own: it is good, worth a retry, or a final failure. Status, range, version and length
// must match the request before any byte is used.
#include "stoker/io/remote/remote_object.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/content_range.h"
#include "stoker/io/remote/refusal.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

// An answer that broke off counts as progress if it brought this many bytes: a server that sends a byte per minute must
// not hold a reader for ever.
constexpr std::size_t kProgressBytes = 256 << 10;

std::size_t total(std::span<const std::span<std::byte>> parts) {
    return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                           [](std::size_t sum, std::span<std::byte> part) { return sum + part.size(); });
}

// The parts without their first `done` bytes.
std::vector<std::span<std::byte>> rest_of(std::span<const std::span<std::byte>> parts, std::size_t done) {
    std::vector<std::span<std::byte>> rest;
    for (const auto part : parts) {
        const std::size_t skipped = std::min(done, part.size());
        done -= skipped;
        if (skipped < part.size()) {
            rest.push_back(part.subspan(skipped));
        }
    }
    return rest;
}

// Limits the length of a server's text, for messages.
std::string in_quotes(std::string_view text) {
    return text.size() <= 80 ? fmt::format("\"{}\"", text) : fmt::format("\"{}...\"", text.substr(0, 80));
}

std::string range_text(ByteRange range) {
    return fmt::format("bytes {} to {}", range.offset, range.offset + range.size - 1);
}

}  // namespace

struct RemoteObject::Fault {
    std::string got;
    std::optional<milliseconds> retry_after = {};
    std::size_t kept = 0;  // bytes of the answer that can be used nevertheless
};

RemoteObject::RemoteObject(const std::string& name, const RemoteOptions& options, std::shared_ptr<HttpClient> client)
    : name_(shown_url(name)), options_(options), client_(std::move(client)), access_(make_access(name)) {
    open();
}

std::string RemoteObject::identity() const {
    return fmt::format("{}\n{}\n{}", cache_name(), version_, size_);
}

HttpAnswer RemoteObject::get(ByteRange range, Parts into, std::size_t whole_bytes) const {
    HttpRequest request = blank_request(options_);
    request.into = std::move(into);
    request.whole_bytes = whole_bytes;
    request.cancelled = &cancelled_;
    const bool conditional = by_etag_ && version_.front() == '"';  // If-Match never matches a weak ETag
    return access_->get(*client_, std::move(request),
                        {.bytes = fmt::format("bytes={}-{}", range.offset, range.offset + range.size - 1),
                         .if_match = conditional ? version_ : ""});
}

void RemoteObject::open() {
    Retry retry(retry_limits(*client_, access_->url(), options_), &cancelled_);
    for (;;) {
        std::byte first{};
        const HttpAnswer answer = get({.offset = 0, .size = 1}, {std::span(&first, 1)}, kWholeBytes);
        if (access_->adapt(answer)) {
            continue;
        }
        const std::optional<Fault> fault = take_opening(answer);
        if (!fault) {
            return;
        }
        // More patience with a server that answers at all.
        retry.set_patience(retry_limits(*client_, access_->url(), options_).patience);
        if (!retry.pause(fault->retry_after)) {
            give_up(*fault, retry, "an object that can be read");
        }
    }
}

std::optional<RemoteObject::Fault> RemoteObject::take_opening(const HttpAnswer& answer) {
    const auto range = parse_content_range(answer.header("content-range").value_or(""));
    if (answer.status == 416 && range && !range->bytes && range->total == 0) {
        take_version(answer);
        return std::nullopt;
    }
    if (answer.status != 200 && answer.status != 206) {
        return check(answer, {.offset = 0, .size = 1});
    }
    if (answer.refused && answer.status == 200) {
        refuse(answer);
    }
    if (!answer.failure.empty()) {
        return Fault{answer.failure};
    }
    if (answer.status == 200) {
        const auto length = answer.header("content-length");
        const bool complete =
            length ? *length == std::to_string(answer.body.size()) : answer.header("transfer-encoding").has_value();
        if (!complete) {
            return Fault{"a body of unknown length"};
        }
        require_memory(answer.body.size(), name_, "the server sends no ranges, so that objects are kept whole");
        whole_ = answer.body;
        size_ = answer.body.size();
        take_version(answer);
        return std::nullopt;
    }
    if (!range || range->bytes != ByteRange{.offset = 0, .size = 1} || answer.received != 1) {
        return Fault{fmt::format("a Content-Range of {}", in_quotes(answer.header("content-range").value_or("")))};
    }
    if (!range->total || *range->total == 0) {
        throw IoError({.where = name_, .expected = "the size of the object in Content-Range", .got = "\"*\""});
    }
    size_ = *range->total;
    take_version(answer);
    return std::nullopt;
}

void RemoteObject::take_version(const HttpAnswer& answer) {
    const auto etag = answer.header("etag");
    by_etag_ = etag && !etag->empty();
    weak_ = by_etag_ && etag->starts_with("W/");
    version_ = by_etag_ ? *etag : answer.header("last-modified").value_or("");
}

void RemoteObject::fetch(std::uint64_t offset, std::span<const std::span<std::byte>> into) const {
    const std::size_t wanted = total(into);
    std::size_t done = 0;
    Retry retry(retry_limits(*client_, access_->url(), options_), &cancelled_);
    while (done < wanted) {
        const ByteRange range{.offset = offset + done, .size = wanted - done};
        const HttpAnswer answer = get(range, rest_of(into, done));
        const std::optional<Fault> fault = check(answer, range);
        if (!fault) {
            return;
        }
        done += fault->kept;
        if (fault->kept >= kProgressBytes) {
            retry.progress();
        }
        if (!retry.pause(fault->retry_after)) {
            give_up(*fault, retry, range_text(range));
        }
    }
}

std::optional<RemoteObject::Fault> RemoteObject::check(const HttpAnswer& answer, ByteRange range) const {
    if (answer.status == 0) {
        if (!answer.may_pass) {
            throw IoError({.where = name_, .expected = "an answer", .got = answer.failure, .hint = answer.hint});
        }
        return Fault{answer.failure};
    }
    if (answer.status == 206) {
        return check_range(answer, range);
    }
    if (may_pass(answer)) {
        const auto after = answer.header("retry-after");
        return Fault{.got = status_text(answer), .retry_after = after ? parse_retry_after(*after) : std::nullopt};
    }
    if (answer.status == 200) {
        check_version(answer, range.offset);
    }
    if (answer.status == 412) {
        changed("another version", range.offset);
    }
    const auto found = parse_content_range(answer.header("content-range").value_or(""));
    if (answer.status == 416 && found && found->total && size_ > 0 && *found->total != size_) {
        changed(fmt::format("one of {} bytes", *found->total), range.offset);
    }
    refuse(answer);
}

std::optional<RemoteObject::Fault> RemoteObject::check_range(const HttpAnswer& answer, ByteRange range) const {
    const auto found = parse_content_range(answer.header("content-range").value_or(""));
    if (found && found->total && *found->total != size_) {
        changed(fmt::format("one of {} bytes", *found->total), range.offset);
    }
    check_version(answer, range.offset);
    if (!found || found->bytes != range) {
        return Fault{fmt::format("a Content-Range of {}", in_quotes(answer.header("content-range").value_or("")))};
    }
    if (!version_.empty() && !answer.header(by_etag_ ? "etag" : "last-modified")) {
        return Fault{"an answer without its version"};
    }
    if (!answer.failure.empty() || answer.received != range.size) {
        const bool keep = !weak_ && !answer.refused && answer.received < range.size;
        return Fault{.got = fmt::format("{} of {} bytes{}{}", answer.received, range.size,
                                        answer.failure.empty() ? "" : ": ", answer.failure),
                     .kept = keep ? answer.received : 0};
    }
    return std::nullopt;
}

void RemoteObject::check_version(const HttpAnswer& answer, std::uint64_t offset) const {
    const auto found = answer.header(by_etag_ ? "etag" : "last-modified");
    if (!version_.empty() && found && *found != version_) {
        changed(in_quotes(*found), offset);
    }
}

void RemoteObject::changed(const std::string& got, std::uint64_t offset) const {
    throw IoError({.where = fmt::format("{}: offset {}", name_, offset),
                   .expected = version_.empty() ? fmt::format("the object of {} bytes that was opened", size_)
                                                : fmt::format("the object that was opened ({})", in_quotes(version_)),
                   .got = got,
                   .hint = "it was replaced while it was open: open it again"});
}

void RemoteObject::give_up(const Fault& fault, const Retry& retry, const std::string& expected) const {
    const bool known = client_->has_answered(access_->url());
    throw IoError(
        {.where = name_,
         .expected = expected,
         .got = fmt::format("{} ({} tries in {:.1f} s)", fault.got, retry.failures(), retry.seconds()),
         .hint = known ? "the server or the network has failed for too long" : "check the host's name and port"});
}

void RemoteObject::refuse(const HttpAnswer& answer) const {
    if (answer.status == 200) {
        throw IoError(
            {.where = name_,
             .expected = "a server that supports range requests",
             .got = "the whole object",
             .hint = fmt::format("only objects of at most {} MiB are read without ranges", kWholeBytes >> 20)});
    }
    std::string hint = answer.hint.empty() ? access_->hint(answer) : answer.hint;
    if (hint.empty() && answer.status >= 300 && answer.status < 400) {
        hint = "a redirect that cannot be followed";
    }
    const bool followed = answer.status < 400 && !answer.failure.empty();  // the redirect also has a status
    throw IoError({.where = name_,
                   .expected = "an object that can be read",
                   .got = followed ? answer.failure : status_text(answer),
                   .hint = hint});
}

}  // namespace stoker
