// Access to s3:// and gs://. Google's XML interface takes S3's requests at another host, with the same signature.
#pragma once

#include <string>

#include "stoker/io/remote/remote_access.h"
#include "stoker/io/remote/s3.h"

namespace stoker {

class S3Access final : public RemoteAccess {
  public:
    // A folder's key may be empty. Throws InvalidArgument.
    explicit S3Access(const std::string& name, bool folder = false);

    std::string url() const override { return s3_url(name_, settings_); }
    HttpAnswer get(HttpClient& client, HttpRequest request, const ObjectRange& range) override;

    // S3 answers a request to the wrong region with the right one. Follows that once.
    bool adapt(const HttpAnswer& answer) override;
    std::string hint(const HttpAnswer& answer) const override;

    // One page of the bucket's listing; `query` is sorted and encoded.
    HttpAnswer list(HttpClient& client, HttpRequest request, const std::string& query) const;

    const S3Name& name() const { return name_; }

  private:
    HttpAnswer send(HttpClient& client, HttpRequest& request, const std::string& range) const;

    bool google_;
    S3Name name_;
    S3Settings settings_;
};

}  // namespace stoker
