// Requests to the hub itself, with the user's token, which no other host receives.
#pragma once

#include <string>

#include "stoker/io/remote/http_client.h"
#include "stoker/io/remote/hub_settings.h"

namespace stoker {

struct HubAnswer {
    HttpAnswer answer;        // may be a redirect to another host
    std::string url;          // that gave it
    std::string linked_etag;  // X-Linked-ETag: the hash of the file's content; empty: none
};

// Follows redirects within the hub, such as those of renamed data sets.
HubAnswer ask_hub(HttpClient& client, HttpRequest request, const HubSettings& settings, const std::string& url);

// True if the hub does not know the repository, or hides it from this user.
bool lacks_repository(const HttpAnswer& answer);

// What to do about a refusal by the hub.
std::string hub_hint(const HttpAnswer& answer, const HubSettings& settings);

}  // namespace stoker
