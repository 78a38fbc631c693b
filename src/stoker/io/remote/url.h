// The parts of an http(s) URL.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

struct Url {
    std::string scheme;     // lower case
    std::string authority;  // host and port, without user and password
    std::string path;       // begins with '/' or is empty
    std::string query;      // after the '?', without a fragment; empty: none
};

// Throws InvalidArgument if scheme or host is missing.
Url parse_url(std::string_view url);

// Replaces bytes other than letters, digits, "-._~" and those in `kept` by %XX (RFC 3986, section 2.1).
std::string percent_encode(std::string_view text, std::string_view kept);

// Replaces each %XX by its byte; a '%' that no two hexadecimal digits follow stays.
std::string percent_decode(std::string_view text);

// True if both have the same scheme, host and port, so that one server answers both. False for a URL with a user.
bool same_origin(std::string_view a, std::string_view b);

// True for https, and for this machine's own http: a token in clear text would be read on the way.
bool may_get_token(std::string_view url);

// Replaces bytes that a URL must not contain (spaces, control characters, non-ASCII) by %XX, and removes the fragment.
std::string escape_url(std::string_view url);

}  // namespace stoker
