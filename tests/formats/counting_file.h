// A file for tests of indices and of reading ahead.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "stoker/base/file.h"
#include "stoker/io/byte_file.h"

namespace stoker::testing {

// Bytes in memory that count how they are read.
class CountingFile final : public ByteFile {
  public:
    struct Counts {
        std::atomic<std::uint64_t> reads{0};
        std::atomic<std::uint64_t> bytes{0};
        std::atomic<std::uint64_t> ahead{0};
        std::atomic<std::uint64_t> anew{0};
        std::atomic<std::uint64_t> damaged_at{0};  // in what read() returns
    };
    CountingFile(std::string bytes, bool remote, Counts& counts, std::string name = "https://host/x.tfrecord")
        : bytes_(std::move(bytes)), remote_(remote), counts_(counts), name_(std::move(name)) {}

    std::uint64_t size() const override { return bytes_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
        ++counts_.reads;
        counts_.bytes += out.size();
        std::ranges::copy(as_bytes(bytes_).subspan(offset, out.size()), out.data());
        const std::uint64_t at = counts_.damaged_at;
        if (at != 0 && offset <= at && at < offset + out.size()) {
            out[at - offset] ^= std::byte{1};
        }
    }
    void read_anew(std::uint64_t offset, std::span<std::byte> out) const override {
        ++counts_.anew;
        std::ranges::copy(as_bytes(bytes_).subspan(offset, out.size()), out.data());
    }
    void prefetch(std::span<const ByteRange> ranges) const override { counts_.ahead += ranges.size(); }
    const std::string& name() const override { return name_; }
    std::string stamp() const override { return "1"; }
    bool remote() const override { return remote_; }

  private:
    std::string bytes_;
    bool remote_;
    Counts& counts_;
    std::string name_;
};

}  // namespace stoker::testing
