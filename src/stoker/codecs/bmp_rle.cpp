// Pairs of bytes: (n, value) is a run of n pixels; (0, 0) ends the row, (0, 1) the image; (0, 2, right, up) skips
// pixels; (0, n) precedes n literal pixels, padded to an even position. The pixels equal Pillow's: skipped pixels
// have the index 0, runs stop at the end of the row, and the end of an empty row is ignored.
#include "stoker/codecs/decoders.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

// The pixels so far, in a buffer that grows; only Buffer checks large sizes against the memory limit.
class Indices {
  public:
    Indices(Buffer& buffer, std::size_t pixels) : buffer_(buffer), pixels_(pixels) {}

    std::size_t size() const { return size_; }

    // Appends `count` pixels of the index 0 and returns the first of them.
    std::uint8_t* append(std::size_t count) {
        const std::size_t end = size_ + count;
        if (end > buffer_.size()) {
            Buffer larger(std::max(end, std::min(pixels_, 2 * buffer_.size())));
            std::copy_n(buffer_.data(), size_, larger.data());
            buffer_ = std::move(larger);
        }
        auto* first = reinterpret_cast<std::uint8_t*>(buffer_.data()) + size_;
        std::fill_n(first, count, std::uint8_t{0});
        size_ = end;
        return first;
    }

  private:
    Buffer& buffer_;
    std::size_t pixels_;
    std::size_t size_ = 0;
};

class RunReader {
  public:
    RunReader(std::span<const std::byte> bytes, std::size_t offset, bool nibbles)
        : bytes_(bytes), position_(offset), nibbles_(nibbles) {}

    std::size_t byte() {
        require(1);
        return std::to_integer<std::size_t>(bytes_[position_++]);
    }

    // Appends `count` pixels of one run.
    void repeat(std::size_t value, std::size_t count, Indices& indices) const {
        std::uint8_t* to = indices.append(count);
        if (!nibbles_) {
            std::fill_n(to, count, static_cast<std::uint8_t>(value));
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            to[i] = static_cast<std::uint8_t>(i % 2 == 0 ? value >> 4 : value & 15);
        }
    }

    // Appends `count` literal pixels.
    void copy(std::size_t count, Indices& to) {
        require(nibbles_ ? (count + 1) / 2 : count);
        for (std::size_t i = 0; i < count; i += nibbles_ ? 2 : 1) {
            repeat(byte(), nibbles_ ? std::min<std::size_t>(2, count - i) : 1, to);
        }
    }

    void align() { position_ += position_ % 2; }

    std::size_t position() const { return position_; }

  private:
    void require(std::size_t size) const {
        if (position_ > bytes_.size() || bytes_.size() - position_ < size) {
            throw_truncated("bmp", "BMP", bytes_.size());
        }
    }

    std::span<const std::byte> bytes_;
    std::size_t position_;
    bool nibbles_;
};

}  // namespace

void decode_bmp_runs(std::span<const std::byte> bytes, std::size_t offset, bool nibbles, int height, int width,
                     Buffer& buffer) {
    constexpr std::size_t kEndOfRow = 0;
    constexpr std::size_t kEndOfImage = 1;
    constexpr std::size_t kSkip = 2;
    const auto columns = static_cast<std::size_t>(width);
    const std::size_t pixels = static_cast<std::size_t>(height) * columns;
    RunReader reader(bytes, offset, nibbles);
    buffer.resize(buffer.capacity());
    Indices indices(buffer, pixels);
    std::size_t x = 0;  // beyond the row's end after pixels that continue in the next row
    while (indices.size() < pixels) {
        const std::size_t run = reader.byte();
        const std::size_t value = reader.byte();
        if (run > 0) {
            const std::size_t count = std::min(run, columns - std::min(x, columns));
            reader.repeat(value, count, indices);
            x += count;
        } else if (value == kEndOfRow) {
            indices.append((columns - indices.size() % columns) % columns);
            x = 0;
        } else if (value == kEndOfImage) {
            throw DataError({.path = {}, .offset = static_cast<std::int64_t>(reader.position())},
                            {.where = "bmp",
                             .expected = fmt::format("runs of {} pixels", pixels),
                             .got = fmt::format("the end of the image after {}", indices.size())});
        } else if (value == kSkip) {
            const std::size_t right = reader.byte();
            const std::size_t up = reader.byte();
            indices.append(std::min(pixels - indices.size(), right + up * columns));
            x = indices.size() % columns;
        } else {
            reader.copy(std::min(value, pixels - indices.size()), indices);
            x += value;
            reader.align();
        }
    }
}

}  // namespace stoker
