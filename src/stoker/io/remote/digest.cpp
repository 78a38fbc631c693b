// Hashing is OpenSSL's; the rest is text.
#include "stoker/io/remote/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <fmt/format.h>
#include <memory>

#include "stoker/base/error.h"

namespace stoker {
namespace {

[[noreturn]] void fail() {
    throw InternalError({.where = "OpenSSL", .expected = "a hash", .got = "a failure"});
}

}  // namespace

std::string digest(Hash hash, std::span<const std::span<const std::byte>> pieces) {
    const EVP_MD* kind = hash == Hash::md5 ? EVP_md5() : hash == Hash::sha1 ? EVP_sha1() : EVP_sha256();
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    if (context == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) {
        fail();
    }
    for (const auto piece : pieces) {
        if (EVP_DigestUpdate(context.get(), piece.data(), piece.size()) != 1) {
            fail();
        }
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context.get(), value.data(), &size) != 1) {
        fail();
    }
    return {reinterpret_cast<const char*>(value.data()), size};
}

std::string sha256(std::string_view text) {
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    return digest(Hash::sha256, std::span(&piece, 1));
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
    unsigned size = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), value.data(), &size) == nullptr) {
        fail();
    }
    return {reinterpret_cast<const char*>(value.data()), size};
}

std::string hex_text(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    if (text.size() % 4 != 0) {
        return std::nullopt;
    }
    std::string bytes;
    std::uint32_t bits = 0;
    int held = 0;
    for (const char c : text.substr(0, text.size() - padding)) {
        const std::size_t value = kAlphabet.find(c);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes += static_cast<char>(bits >> held & 0xff);
        }
    }
    return bytes;
}

}  // namespace stoker
