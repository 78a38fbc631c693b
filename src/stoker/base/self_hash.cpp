// The hash is found by its key in the text, because a damaged document may no longer be JSON.
#include "stoker/base/self_hash.h"

#include <fmt/format.h>
#include <span>

#include "stoker/base/hash.h"

namespace stoker {
namespace {

constexpr std::size_t kDigits = 16;

// The position of the hash's digits; npos if there are none.
std::size_t find_digits(std::string_view text) {
    const std::string key = fmt::format("\"{}\": \"", kSelfHash);
    const std::size_t at = text.rfind(key);
    const std::size_t digits = at == std::string_view::npos ? at : at + key.size();
    return digits != std::string_view::npos && text.size() >= digits + kDigits ? digits : std::string_view::npos;
}

// The hash of the text with zeros in place of its digits.
std::string hash_without_digits(std::string_view text, std::size_t digits) {
    StreamHash hash;
    for (const std::string_view part :
         {text.substr(0, digits), std::string_view(kNoSelfHash), text.substr(digits + kDigits)}) {
        hash.update(std::as_bytes(std::span(part)));
    }
    return fmt::format("{:016x}", hash.value());
}

}  // namespace

std::string with_self_hash(std::string text) {
    if (const std::size_t at = find_digits(text); at != std::string::npos) {
        text.replace(at, kDigits, hash_without_digits(text, at));
    }
    return text;
}

bool self_hash_fits(std::string_view text) {
    const std::size_t at = find_digits(text);
    return at == std::string_view::npos || hash_without_digits(text, at) == text.substr(at, kDigits);
}

}  // namespace stoker
