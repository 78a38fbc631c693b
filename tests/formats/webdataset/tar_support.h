// Writes tar archives block by block, also ones that no program writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/webdataset/tar_reader.h"
#include "stoker/io/byte_file.h"

namespace stoker::testing {

inline constexpr std::string_view kPosix{
    "ustar\0"
    "00",
    8};
inline constexpr std::string_view kGnu{"ustar  \0", 8};
inline constexpr std::string_view kV7{};

struct TarOptions {
    char type = '0';
    std::string_view magic = kPosix;
    std::string prefix = {};
    bool base256 = false;       // size as a binary number
    std::uint64_t claimed = 0;  // size in the header; 0: the payload's
    bool signed_sum = false;
};

// A header with a correct checksum.
inline std::string tar_header(std::string_view name, std::uint64_t size, const TarOptions& options = {}) {
    std::string block(512, '\0');
    const auto put = [&](std::size_t at, std::string_view text) { block.replace(at, text.size(), text); };
    put(0, name.substr(0, 100));
    put(100, "0000644");
    put(108, "0001750");
    put(116, "0001750");
    if (options.base256) {
        put(124, "\x80");
        for (std::size_t i = 0; i < 8; ++i) {
            block[128 + i] = static_cast<char>(size >> (8 * (7 - i)));
        }
    } else {
        put(124, fmt::format("{:011o}", size));
    }
    put(136, "14500000000");
    put(148, "        ");
    block[156] = options.type;
    put(257, options.magic);
    put(345, options.prefix);
    const auto add = [&](std::int64_t sum, char c) {
        return sum + (options.signed_sum ? std::int64_t{static_cast<signed char>(c)}
                                         : std::int64_t{static_cast<unsigned char>(c)});
    };
    put(148, fmt::format("{:06o}", std::accumulate(block.begin(), block.end(), std::int64_t{0}, add)));
    block[154] = '\0';
    return block;
}

inline std::string padded(std::string text) {
    text.resize((text.size() + 511) / 512 * 512);
    return text;
}

inline std::string tar_member(std::string_view name, std::string_view payload, const TarOptions& options = {}) {
    const std::uint64_t size = options.claimed != 0 ? options.claimed : payload.size();
    return tar_header(name, size, options) + padded(std::string(payload));
}

inline std::string tar_end() {
    return std::string(1024, '\0');
}

// "25 path=cat/001.jpg\n": the number includes its own digits.
inline std::string pax_record(std::string_view key, std::string_view value) {
    std::size_t size = key.size() + value.size() + 3;
    while (fmt::to_string(size).size() + key.size() + value.size() + 3 != size) {
        size = fmt::to_string(size).size() + key.size() + value.size() + 3;
    }
    return fmt::format("{} {}={}\n", size, key, value);
}

inline std::string pax(std::string_view records, char type = 'x') {
    return tar_member("PaxHeaders/x", records, {.type = type});
}

inline std::string long_name(std::string_view name, char type = 'L') {
    return tar_member("././@LongLink", std::string(name) + '\0', {.type = type, .magic = kGnu});
}

// An archive in memory that logs reads and prefetches.
class MemoryFile final : public ByteFile {
  public:
    struct Log {
        std::vector<ByteRange> reads;
        std::vector<ByteRange> wanted;
    };

    MemoryFile(std::string name, std::string bytes, Log* log = nullptr, std::string stamp = "1")
        : name_(std::move(name)), bytes_(std::move(bytes)), log_(log), stamp_(std::move(stamp)) {}

    std::uint64_t size() const override { return bytes_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
        if (log_ != nullptr) {
            log_->reads.push_back({offset, out.size()});
        }
        std::ranges::copy(as_bytes(std::string_view(bytes_).substr(offset, out.size())), out.begin());
    }
    void prefetch(std::span<const ByteRange> ranges) const override {
        log_->wanted.insert(log_->wanted.end(), ranges.begin(), ranges.end());
    }
    const std::string& name() const override { return name_; }
    std::string stamp() const override { return stamp_; }
    bool settled() const override { return !stamp_.empty(); }
    bool remote() const override { return is_remote(name_); }

  private:
    std::string name_;
    std::string bytes_;
    Log* log_;
    std::string stamp_;
};

}  // namespace stoker::testing
