// One object behind a URL: what is known of it since it was opened, and requests for ranges of it that are repeated
// until the bytes are right or patience is over. An object that was replaced meanwhile is an error: versions are never
// mixed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/io/byte_file.h"
#include "stoker/io/remote/http_client.h"
#include "stoker/io/remote/retry.h"
#include "stoker/io/remote/s3_settings.h"

namespace stoker {

class RemoteObject {
  public:
    // Asks for the first byte, which tells size and version. Throws IoError where there is no such object, or where the
    // server knows no ranges and the object is larger than kWholeBytes.
    RemoteObject(const std::string& name, const RemoteOptions& options, std::shared_ptr<HttpClient> client);

    static constexpr std::size_t kWholeBytes = 8 << 20;

    const std::string& name() const { return name_; }  // without password and signature
    std::uint64_t size() const { return size_; }

    // The ETag, else the time of the last change; empty where the server gives neither.
    const std::string& version() const { return version_; }

    // Whether an equal version means equal bytes. Not so for a weak ETag, which only promises the same meaning: it
    // tells a change, and nothing is kept by it.
    bool same_bytes() const { return !version_.empty() && !weak_; }

    // What no other object is called: for a cache's keys, never for messages.
    const std::string& url() const { return url_; }
    // The same of this version.
    std::string identity() const;

    // All of it, where the server knows no ranges.
    const std::optional<std::vector<std::byte>>& whole() const { return whole_; }

    // Fills `into`, one span after the other, with the bytes from `offset` on. Many threads at once. Throws IoError,
    // or DataError where the object has changed.
    void fetch(std::uint64_t offset, std::span<const std::span<std::byte>> into) const;

    // Running and later fetches fail soon.
    void cancel() { cancelled_ = true; }

  private:
    using Parts = std::vector<std::span<std::byte>>;
    struct Fault;  // an answer of no use that another one may follow

    HttpRequest request(ByteRange range, Parts into) const;
    void open();
    std::optional<Fault> take_opening(const HttpAnswer& answer, std::byte first);
    void take_version(const HttpAnswer& answer);
    bool switch_region(const HttpAnswer& answer);
    std::optional<Fault> judge(const HttpAnswer& answer, ByteRange range, const Parts& into) const;
    std::optional<Fault> judge_range(const HttpAnswer& answer, ByteRange range, const Parts& into) const;
    std::optional<Fault> wrong_checksum(const HttpAnswer& answer, ByteRange range, const Parts& into) const;
    void check_version(const HttpAnswer& answer, std::uint64_t offset) const;
    [[noreturn]] void give_up(const Fault& fault, const Retry& retry, const std::string& expected) const;
    [[noreturn]] void refuse(const HttpAnswer& answer) const;
    [[noreturn]] void changed(const std::string& got, std::uint64_t offset) const;
    RetryLimits limits() const;

    std::string name_;
    std::string url_;
    RemoteOptions options_;
    std::shared_ptr<HttpClient> client_;
    std::optional<S3Settings> s3_;
    std::atomic<bool> cancelled_{false};
    std::uint64_t size_ = 0;
    std::string version_;
    bool by_etag_ = false;
    bool weak_ = false;
    std::map<std::string, std::string> whole_checksums_;
    std::optional<std::vector<std::byte>> whole_;
};

}  // namespace stoker
