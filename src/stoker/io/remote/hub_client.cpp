#include "stoker/io/remote/hub_client.h"

#include <utility>

#include "stoker/io/remote/refusal.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr int kMostRedirects = 5;

}  // namespace

HubAnswer ask_hub(HttpClient& client, HttpRequest request, const HubSettings& settings, const std::string& url) {
    request.follow = false;
    request.url = url;
    if (!settings.token.empty() && same_origin(url, settings.endpoint)) {
        request.headers.push_back("authorization: Bearer " + settings.token);
    }
    HubAnswer found;
    for (int redirects = 0;; ++redirects) {
        found.answer = client.get(request);
        found.url = request.url;
        if (found.linked_etag.empty()) {
            found.linked_etag = found.answer.header("x-linked-etag").value_or("");
        }
        const std::string& next = found.answer.redirect;
        if (next.empty() || redirects == kMostRedirects || !same_origin(next, settings.endpoint)) {
            return found;
        }
        request.named_by = found.answer.peer;
        request.url = next;
    }
}

bool lacks_repository(const HttpAnswer& answer) {
    const std::string code = error_code(answer);
    return (answer.status == 401 || answer.status == 404) && (code.empty() || code == "RepoNotFound");
}

std::string hub_hint(const HttpAnswer& answer, const HubSettings& settings) {
    const std::string code = error_code(answer);
    if (code == "GatedRepo") {
        return "accept the terms on the data set's page, and set HF_TOKEN";
    }
    if (code == "EntryNotFound") {
        return "check the path";
    }
    if (code == "RevisionNotFound") {
        return "check the revision";
    }
    if (lacks_repository(answer) || answer.status == 403) {
        return settings.token.empty() ? "check the name; a private data set needs a token (HF_TOKEN)"
                                      : "check the name, and that the token may read the data set";
    }
    return "";
}

}  // namespace stoker
