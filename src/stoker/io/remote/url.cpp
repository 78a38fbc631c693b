// The parts of RFC 3986 that requests and messages need.
#include "stoker/io/remote/url.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/url_secrets.h"

namespace stoker {
namespace {

bool is_unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

void append_escaped(std::string& to, char c) {
    to += fmt::format("%{:02X}", static_cast<unsigned char>(c));
}

// Removes user and password: everything up to the last '@' of the authority.
std::string_view without_user(std::string_view authority) {
    const std::size_t at = authority.rfind('@');
    return at == std::string_view::npos ? authority : authority.substr(at + 1);
}

}  // namespace

Url parse_url(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == 0 || scheme == std::string_view::npos) {
        throw InvalidArgument(
            {.where = shown_url(url), .expected = "a URL such as https://host/path", .got = "no scheme"});
    }
    const std::string_view rest = url.substr(scheme + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    std::string_view path = rest.substr(authority.size());
    path = path.substr(0, path.find('#'));
    const std::size_t end = std::min(path.find('?'), path.size());
    Url parts{.scheme = lower_case(url.substr(0, scheme)),
              .authority = std::string(without_user(authority)),
              .path = std::string(path.substr(0, end)),
              .query = std::string(path.substr(std::min(end + 1, path.size())))};
    if (parts.authority.empty()) {
        throw InvalidArgument({.where = shown_url(url), .expected = "a host after ://", .got = "none"});
    }
    return parts;
}

std::string percent_encode(std::string_view text, std::string_view kept) {
    std::string encoded;
    for (const char c : text) {
        if (is_unreserved(c) || kept.find(c) != std::string_view::npos) {
            encoded += c;
        } else {
            append_escaped(encoded, c);
        }
    }
    return encoded;
}

std::string percent_decode(std::string_view text) {
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view digits = text.substr(i + 1, 2);
        const auto byte = digits.size() == 2 ? parse_number<std::uint8_t>(digits, 16) : std::nullopt;
        if (text[i] == '%' && byte) {
            decoded += static_cast<char>(*byte);
            i += 2;
        } else {
            decoded += text[i];
        }
    }
    return decoded;
}

bool same_origin(std::string_view a, std::string_view b) {
    const auto origin = [](std::string_view url) {
        const Url parts = parse_url(url);
        const std::string_view usual = parts.scheme == "https" ? ":443" : ":80";
        std::string host = lower_case(parts.authority);
        if (host.ends_with(usual)) {
            host.resize(host.size() - usual.size());
        }
        return parts.scheme + "://" + host;
    };
    const auto has_user = [](std::string_view url) {
        const std::string_view rest = url.substr(url.find("://") + 3);
        return rest.substr(0, rest.find_first_of("/?#")).find('@') != std::string_view::npos;
    };
    try {
        return origin(a) == origin(b) && !has_user(a) && !has_user(b);
    } catch (const InvalidArgument&) {  // a redirect may be any text
        return false;
    }
}

namespace {

// 127.0.0.1, but not 127.example.org.
bool is_loopback_number(std::string_view host) {
    return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

bool may_get_token(std::string_view url) {
    const Url parts = parse_url(url);
    const std::string_view authority = parts.authority;
    const std::string_view host =
        authority.substr(0, authority.starts_with('[') ? authority.find(']') + 1 : authority.rfind(':'));
    return parts.scheme == "https" || host == "localhost" || is_loopback_number(host) || host == "[::1]";
}

std::string escape_url(std::string_view url) {
    std::string escaped;
    for (const char c : url.substr(0, url.find('#'))) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte <= ' ' || byte >= 0x7f || c == '"' || c == '<' || c == '>' || c == '\\' || c == '^' || c == '`' ||
            c == '{' || c == '|' || c == '}') {
            append_escaped(escaped, c);
        } else {
            escaped += c;
        }
    }
    return escaped;
}

}  // namespace stoker
