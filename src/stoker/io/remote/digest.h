// Hashes of OpenSSL as bytes and text, and base64: what signatures and checksums of remote data are made of.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

enum class Hash { md5, sha1, sha256 };

// Raw bytes, in a string.
std::string digest(Hash hash, std::span<const std::span<const std::byte>> pieces);
std::string sha256(std::string_view text);
std::string hmac_sha256(std::string_view key, std::string_view text);

std::string hex_text(std::string_view bytes);  // lower case

// Standard alphabet, padded. Empty for anything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace stoker
