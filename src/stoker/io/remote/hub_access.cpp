#include "stoker/io/remote/hub_access.h"

#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr int kMostTries = 3;

// Refusals of a signature that has expired. Amazon and CloudFront send 403, Google 400.
bool may_have_expired(int status) {
    return status == 400 || status == 401 || status == 403 || status == 404 || status == 410;
}

void set_etag(HttpAnswer& answer, const std::string& etag) {
    std::erase_if(answer.headers, [](const auto& header) { return header.first == "etag"; });
    answer.headers.emplace_back("etag", etag);
}

}  // namespace

struct HubAccess::Location {
    std::string url;
    bool at_hub = false;    // the hub sends the bytes itself, for the token
    std::string etag = {};  // X-Linked-ETag; empty: none
    std::optional<HttpPeer> named_by = {};
    mutable std::atomic<bool> worked{false};
};

HubAccess::HubAccess(const std::string& name) : name_(parse_hub_name(name)), settings_(find_hub_settings(name)) {
    std::erase_if(name_.places, [](const HubPlace& place) { return place.path.empty(); });
    if (name_.places.empty()) {
        throw InvalidArgument({.where = shown_url(name),
                               .expected = "a file of the data set: hf://datasets/ORG/NAME/PATH",
                               .got = "a name without a path"});
    }
}

std::string HubAccess::url() const {
    const std::scoped_lock lock(mutex_);
    return hub_file_url(settings_.endpoint, name_.places[place_], name_.revision);
}

std::string HubAccess::hint(const HttpAnswer& answer) const {
    return hub_hint(answer, settings_);
}

// Asks for the first byte. Which of the meanings of the name is right is known after the first answer.
HubAnswer HubAccess::resolve(HttpClient& client, const HttpRequest& like) {
    std::byte first{};
    HttpRequest request = like;
    request.into = {std::span(&first, 1)};
    request.whole_bytes = 0;
    request.headers = {"range: bytes=0-0"};
    const auto ask = [&](std::size_t place) {
        return ask_hub(client, request, settings_,
                       hub_file_url(settings_.endpoint, name_.places[place], name_.revision));
    };
    HubAnswer found = ask(place_);
    if (lacks_repository(found.answer) && place_ + 1 < name_.places.size()) {
        HubAnswer other = ask(place_ + 1);
        if (!lacks_repository(other.answer)) {
            ++place_;
            return other;
        }
    }
    return found;
}

// Null, with the answer, if the hub refuses.
std::shared_ptr<const HubAccess::Location> HubAccess::find(HttpClient& client, const HttpRequest& like,
                                                           HttpAnswer& refusal) {
    const std::scoped_lock lock(mutex_);
    if (location_ != nullptr) {
        return location_;
    }
    HubAnswer found = resolve(client, like);
    const int status = found.answer.status;
    auto location = std::make_shared<Location>();
    location->etag = found.linked_etag;
    location->named_by = found.answer.peer;
    if (status == 200 || status == 206 || status == 416) {  // 416: an empty file
        location->at_hub = true;
        location->url = found.url;
    } else if (!found.answer.redirect.empty() && !same_origin(found.answer.redirect, settings_.endpoint)) {
        location->url = found.answer.redirect;
    } else {
        refusal = std::move(found.answer);
        return nullptr;
    }
    if (settings_.endpoint.starts_with("https://") && !location->url.starts_with("https://")) {
        refusal.status = 0;
        refusal.failure = "a redirect from https to http";
        return nullptr;
    }
    location_ = location;
    return location_;
}

void HubAccess::forget(const std::shared_ptr<const Location>& location) {
    const std::scoped_lock lock(mutex_);
    if (location_ == location) {
        location_ = nullptr;
    }
}

HttpAnswer HubAccess::get(HttpClient& client, HttpRequest request, const ObjectRange& range) {
    for (int tries = 1;; ++tries) {
        HttpAnswer answer;
        const std::shared_ptr<const Location> location = find(client, request, answer);
        if (location == nullptr) {
            return answer;
        }
        request.headers = {"range: " + range.bytes};
        request.url = location->url;
        request.named_by = location->named_by;
        answer = location->at_hub ? ask_hub(client, request, settings_, location->url).answer : client.get(request);
        if (may_have_expired(answer.status)) {
            forget(location);
            if (location->worked && tries < kMostTries) {
                continue;
            }
        }
        if (answer.status == 200 || answer.status == 206) {
            location->worked = true;
        }
        if (!location->etag.empty() && (answer.status == 200 || answer.status == 206 || answer.status == 416)) {
            set_etag(answer, location->etag);
        }
        return answer;
    }
}

}  // namespace stoker
