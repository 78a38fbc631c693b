// Access to hf://datasets/ORG/NAME/PATH. The hub answers with a redirect to a signed URL at a content delivery network,
// which expires. It is kept and used without the hub's token until it is refused; then the hub is asked again.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "stoker/io/remote/hub_client.h"
#include "stoker/io/remote/hub_name.h"
#include "stoker/io/remote/remote_access.h"

namespace stoker {

class HubAccess final : public RemoteAccess {
  public:
    explicit HubAccess(const std::string& name);

    // At the hub: without a signature.
    std::string url() const override;

    // The ETag of the answer is the hub's X-Linked-ETag, if it sends one: the hash of the content, whose name the
    // signed URL contains. The network's own ETag may differ between its servers, so no If-Match is sent.
    HttpAnswer get(HttpClient& client, HttpRequest request, const ObjectRange& range) override;
    std::string hint(const HttpAnswer& answer) const override;

  private:
    struct Location;  // of the bytes

    std::shared_ptr<const Location> find(HttpClient& client, const HttpRequest& like, HttpAnswer& refusal);
    HubAnswer resolve(HttpClient& client, const HttpRequest& like);
    void forget(const std::shared_ptr<const Location>& location);

    HubName name_;
    HubSettings settings_;
    mutable std::mutex mutex_;  // also held while the hub is asked: others wait for the answer
    std::size_t place_ = 0;     // of name_.places
    std::shared_ptr<const Location> location_;
};

}  // namespace stoker
