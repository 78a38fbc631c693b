// A header's name and its algorithm make one name, which also tells how to compute it.
#include "stoker/io/remote/body_check.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stoker/base/crc32c.h"
#include "stoker/io/remote/digest.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 5> kAlgorithms = {"md5", "sha", "sha-256", "crc32c", "crc32"};

std::size_t digest_bytes(std::string_view algorithm) {
    return algorithm == "md5" ? 16 : algorithm == "sha" ? 20 : algorithm == "sha-256" ? 32 : 4;
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return result;
}

class Found {
  public:
    explicit Found(std::map<std::string, std::string>& to) : to_(to) {}

    void add(std::string_view header, std::string_view algorithm, std::string_view value) {
        if (value.size() >= 2 && value.front() == ':' && value.back() == ':') {  // RFC 9530's marks around bytes
            value = value.substr(1, value.size() - 2);
        }
        for (const std::string_view known : kAlgorithms) {
            if (known == algorithm) {
                const std::optional<std::string> bytes = decode_base64(value);
                if (bytes && bytes->size() == digest_bytes(known)) {
                    to_[std::string(header) + " " + std::string(known)] = *bytes;
                }
            }
        }
    }

    // "sha-256=...,md5=..."
    void add_list(std::string_view header, std::string_view list) {
        while (!list.empty()) {
            std::string_view entry = list.substr(0, list.find(','));
            list.remove_prefix(std::min(list.size(), entry.size() + 1));
            while (entry.starts_with(' ')) {
                entry.remove_prefix(1);
            }
            while (entry.ends_with(' ')) {
                entry.remove_suffix(1);
            }
            const std::size_t equals = entry.find('=');
            if (equals != std::string_view::npos) {
                add(header, lower(entry.substr(0, equals)), entry.substr(equals + 1));
            }
        }
    }

  private:
    std::map<std::string, std::string>& to_;
};

std::string big_endian(std::uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
}

}  // namespace

std::map<std::string, std::string> body_checksums(const HttpAnswer& answer) {
    std::map<std::string, std::string> checksums;
    Found found(checksums);
    constexpr std::string_view kAmazon = "x-amz-checksum-";
    for (const auto& [name, value] : answer.headers) {
        if (name == "content-md5") {
            found.add(name, "md5", value);
        } else if (name == "content-digest" || name == "digest" || name == "repr-digest") {
            found.add_list(name, value);
        } else if (name.starts_with(kAmazon)) {
            const std::string_view algorithm = std::string_view(name).substr(kAmazon.size());
            found.add(name, algorithm == "sha256" ? "sha-256" : algorithm == "sha1" ? "sha" : algorithm, value);
        }
    }
    return checksums;
}

bool covers_body(const std::string& name) {
    return name.starts_with("content-");
}

bool has_checksum(const std::string& name, const std::string& value,
                  std::span<const std::span<const std::byte>> pieces) {
    const std::string algorithm = name.substr(name.find(' ') + 1);
    if (algorithm == "crc32c" || algorithm == "crc32") {
        std::uint32_t crc = 0;
        for (const auto piece : pieces) {
            crc = algorithm == "crc32c" ? crc32c(piece, crc)
                                        : static_cast<std::uint32_t>(::crc32_z(
                                              crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
        }
        return big_endian(crc) == value;
    }
    return digest(algorithm == "md5" ? Hash::md5 : algorithm == "sha" ? Hash::sha1 : Hash::sha256, pieces) == value;
}

}  // namespace stoker
