// One object behind a URL: its size and version, and requests for ranges of its bytes, which are retried until the
// answer is right or RemoteOptions::patience is over. An object that is replaced while open is an error: bytes of two
// versions are never mixed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/url_secrets.h"
#include "stoker/io/byte_file.h"
#include "stoker/io/remote/http_client.h"
#include "stoker/io/remote/remote_access.h"
#include "stoker/io/remote/retry.h"

namespace stoker {

class RemoteObject {
  public:
    // Requests the first byte; the answer has size and version. Throws IoError if the object does not exist, or if the
    // server does not support ranges and the object is larger than kWholeBytes.
    RemoteObject(const std::string& name, const RemoteOptions& options, std::shared_ptr<HttpClient> client);

    static constexpr std::size_t kWholeBytes = 8 << 20;

    const std::string& name() const { return name_; }  // without password and signature
    std::uint64_t size() const { return size_; }

    // The ETag, else Last-Modified; empty if the server sends neither.
    const std::string& version() const { return version_; }

    // True if an equal version means equal bytes. A weak ETag does not promise that: it reveals a change, but nothing
    // is cached under it.
    bool same_bytes() const { return !version_.empty() && !weak_; }

    // Unique among objects, and with identity() also among versions: for keys of caches, never for messages. The same
    // for a URL that was signed again.
    std::string cache_name() const { return unsigned_url(access_->url()); }
    std::string identity() const;

    // The whole object, if the server does not support ranges.
    const std::optional<std::vector<std::byte>>& whole() const { return whole_; }

    // Fills `into`, one span after the other, with the bytes from `offset` on. Thread-safe. Throws IoError, also if
    // the object has changed.
    void fetch(std::uint64_t offset, std::span<const std::span<std::byte>> into) const;

    // Makes running and later fetches fail soon.
    void cancel() { cancelled_ = true; }

  private:
    using Parts = std::vector<std::span<std::byte>>;
    struct Fault;  // a useless answer; a retry may get a better one

    HttpAnswer get(ByteRange range, Parts into, std::size_t whole_bytes = 0) const;
    void open();
    std::optional<Fault> take_opening(const HttpAnswer& answer);
    void take_version(const HttpAnswer& answer);
    std::optional<Fault> check(const HttpAnswer& answer, ByteRange range) const;
    std::optional<Fault> check_range(const HttpAnswer& answer, ByteRange range) const;
    void check_version(const HttpAnswer& answer, std::uint64_t offset) const;
    [[noreturn]] void give_up(const Fault& fault, const Retry& retry, const std::string& expected) const;
    [[noreturn]] void refuse(const HttpAnswer& answer) const;
    [[noreturn]] void changed(const std::string& got, std::uint64_t offset) const;

    std::string name_;
    RemoteOptions options_;
    std::shared_ptr<HttpClient> client_;
    std::unique_ptr<RemoteAccess> access_;
    std::atomic<bool> cancelled_{false};
    std::uint64_t size_ = 0;
    std::string version_;
    bool by_etag_ = false;
    bool weak_ = false;
    std::optional<std::vector<std::byte>> whole_;
};

}  // namespace stoker
