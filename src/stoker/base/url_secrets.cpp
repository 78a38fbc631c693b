#include "stoker/base/url_secrets.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/base/ascii.h"

namespace stoker {
namespace {

constexpr std::string_view kHiddenUser = "...@";
constexpr std::string_view kHiddenQuery = "?...";

struct Parts {
    std::string_view scheme;  // with "://", and any text before it
    std::string_view user;    // with '@'
    std::string_view place;   // host and path
    std::string_view query;   // with '?'
};

// Length of user and password with their '@'; 0 if there are none. In a password, '/' should be escaped: if it is not,
// the authority seems to end there, behind a ':' that no port follows.
std::size_t first_user_bytes(std::string_view rest) {
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
        return at + 1;
    }
    const std::size_t colon = authority.rfind(':');
    const bool port = colon == std::string_view::npos || authority.ends_with(']') ||
                      authority.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
    const std::size_t at = port ? std::string_view::npos : rest.find('@');
    return port ? 0 : at == std::string_view::npos ? authority.size() : at + 1;
}

// The same for a password that also has '@': more of it may follow.
std::size_t user_bytes(std::string_view rest) {
    std::size_t bytes = 0;
    while (const std::size_t more = first_user_bytes(rest.substr(bytes))) {
        bytes += more;
    }
    return bytes;
}

Parts split(std::string_view url) {
    const std::size_t scheme = url.find("://");
    const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
    Parts parts{.scheme = url.substr(0, begin), .user = {}, .place = url.substr(begin), .query = {}};
    const std::size_t user = user_bytes(parts.place);
    parts.user = parts.place.substr(0, user);
    parts.place.remove_prefix(user);
    if (names_object(parts.scheme)) {
        return parts;
    }
    parts.place = parts.place.substr(0, parts.place.find('#'));
    if (const std::size_t query = parts.place.find('?'); query != std::string_view::npos) {
        parts.query = parts.place.substr(query);
        parts.place = parts.place.substr(0, query);
    }
    return parts;
}

// Of Amazon, Google, CloudFront and Azure, and common names of tokens. Not `key` and `code`: they may as well name an
// object, and two objects must not have one name. A token that stays costs only a new entry in a cache.
bool is_signature(std::string_view parameter) {
    constexpr std::array<std::string_view, 23> kNames = {"awsaccesskeyid",
                                                         "googleaccessid",
                                                         "key-pair-id",
                                                         "signature",
                                                         "expires",
                                                         "policy",
                                                         "sig",
                                                         "se",
                                                         "st",
                                                         "ske",
                                                         "skt",
                                                         "token",
                                                         "auth",
                                                         "auth_token",
                                                         "jwt",
                                                         "access_token",
                                                         "api_key",
                                                         "apikey",
                                                         "access_key",
                                                         "password",
                                                         "authorization",
                                                         "secret",
                                                         "credential"};
    const std::string name = lower_case(parameter.substr(0, parameter.find('=')));
    return name.starts_with("x-amz-") || name.starts_with("x-goog-") || std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

bool names_object(std::string_view name) {
    return name.starts_with("s3://") || name.starts_with("gs://") || name.starts_with("hf://");
}

bool is_url(std::string_view name) {
    return name.find("://") != std::string_view::npos;
}

std::string shown_url(std::string_view url) {
    if (!is_url(url)) {
        return std::string(url);
    }
    const Parts parts = split(url);
    return fmt::format("{}{}{}", parts.scheme, parts.place, parts.query.empty() ? "" : kHiddenQuery);
}

std::string stored_url(std::string_view url) {
    if (!is_url(url)) {
        return std::string(url);
    }
    const Parts parts = split(url);
    return fmt::format("{}{}{}{}", parts.scheme, parts.user.empty() ? "" : kHiddenUser, parts.place,
                       parts.query.empty() ? "" : kHiddenQuery);
}

bool lacks_secrets(std::string_view url) {
    if (!is_url(url)) {
        return false;
    }
    const Parts parts = split(url);
    return parts.user == kHiddenUser || parts.query == kHiddenQuery;
}

std::string unsigned_url(std::string_view url) {
    const Parts parts = split(url);
    std::string text = fmt::format("{}{}", parts.scheme, parts.place);
    char separator = '?';
    std::string_view rest = parts.query.empty() ? parts.query : parts.query.substr(1);
    while (!rest.empty()) {
        const std::string_view parameter = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), parameter.size() + 1));
        if (!is_signature(parameter)) {
            text += separator;
            text += parameter;
            separator = '&';
        }
    }
    return text;
}

}  // namespace stoker
