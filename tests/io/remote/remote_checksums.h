// Checksum headers that a test's server sends along with what it serves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/crc32c.h"
#include "stoker/io/remote/digest.h"
#include "support/http_server.h"

namespace stoker::testing {

inline std::string base64(const std::string& bytes) {
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t bits = 0;
        for (std::size_t j = 0; j < 3; ++j) {
            bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
        }
        for (std::size_t j = 0; j < 4; ++j) {
            text += i + j <= bytes.size() ? kAlphabet[bits >> (18 - 6 * j) & 63] : '=';
        }
    }
    return text;
}

inline std::string crc_bytes(const std::string& body) {
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(body)));
    return {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16), static_cast<char>(crc >> 8),
            static_cast<char>(crc)};
}

inline std::string md5_of(const std::string& body) {
    const std::span<const std::byte> piece = std::as_bytes(std::span(body));
    return digest(Hash::md5, std::span(&piece, 1));
}

struct Checksum {
    std::string name;
    HttpServer::Extra lines;
};

inline std::vector<Checksum> checksums() {
    return {{"Content-MD5", [](const SeenRequest&, const std::string& body,
                               const std::string&) { return "Content-MD5: " + base64(md5_of(body)) + "\r\n"; }},
            {"x-amz-checksum-crc32c",
             [](const SeenRequest&, const std::string& body, const std::string&) {
                 return "x-amz-checksum-crc32c: " + base64(crc_bytes(body)) + "\r\n";
             }},
            {"x-amz-checksum-sha256",
             [](const SeenRequest&, const std::string& body, const std::string&) {
                 return "x-amz-checksum-sha256: " + base64(sha256(body)) + "\r\n";
             }},
            {"Digest", [](const SeenRequest&, const std::string& body,
                          const std::string&) { return "Digest: unixsum=1,sha-256=" + base64(sha256(body)) + "\r\n"; }},
            {"Content-Digest", [](const SeenRequest&, const std::string& body, const std::string&) {
                 return "Content-Digest: sha-256=:" + base64(sha256(body)) + ":\r\n";
             }}};
}

}  // namespace stoker::testing
