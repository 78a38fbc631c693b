// The parts of an http(s) URL, and what of it may appear in a message: neither user and password nor the query, which
// holds the signature of a presigned URL.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

struct Url {
    std::string scheme;     // lower case
    std::string authority;  // host and port, without user and password
    std::string path;       // begins with '/' or is empty
};

// Throws InvalidArgument for what has no scheme or no host.
Url parse_url(std::string_view url);

// Without user, password and fragment; a query is shown as "?...".
std::string shown_url(std::string_view url);

// Bytes other than letters, digits, "-._~" and those of `kept` become %XX: RFC 3986, section 2.1.
std::string percent_encode(std::string_view text, std::string_view kept);

// The bytes that no URL may hold (spaces, control characters, beyond ASCII) become %XX; everything else stays.
std::string escape_url(std::string_view url);

}  // namespace stoker
