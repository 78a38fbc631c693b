// Shared by the codec tests: small images that compress like photographs, edits of JPEG and PNG files, and a sink that
// needs memory for one row only, also for damaged headers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/encode.h"

namespace stoker::testing {

using Bytes = std::vector<std::byte>;

// Smooth gradients with a little noise, different for every seed.
inline Image picture(int height, int width, int channels = 3, std::uint64_t seed = 1) {
    Image image(height, width, channels);
    Rng rng({.seed = seed});
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width * channels; ++x) {
            const int c = x % channels;
            const int smooth = 40 + 150 * (c == 1 ? y : x / channels) / (c == 1 ? height : width) + 10 * c;
            image.view().row(y)[x] = static_cast<std::uint8_t>(smooth + static_cast<int>(rng.below(12)));
        }
    }
    return image;
}

inline bool same_pixels(ConstImageView a, ConstImageView b) {
    if (a.height != b.height || a.width != b.width || a.channels != b.channels) {
        return false;
    }
    for (int y = 0; y < a.height; ++y) {
        if (std::memcmp(a.row(y), b.row(y), a.row_bytes()) != 0) {
            return false;
        }
    }
    return true;
}

// Mean and largest absolute difference of two images of the same shape.
struct Difference {
    double mean = 0;
    int largest = 0;
};
inline Difference difference(ConstImageView a, ConstImageView b) {
    Difference result;
    for (int y = 0; y < a.height; ++y) {
        for (std::size_t x = 0; x < a.row_bytes(); ++x) {
            const int d = std::abs(a.row(y)[x] - b.row(y)[x]);
            result.mean += d;
            result.largest = std::max(result.largest, d);
        }
    }
    result.mean /= static_cast<double>(a.height) * static_cast<double>(a.row_bytes());
    return result;
}

inline Image decode(Decoder& decoder, std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
    Image image;
    ImageSink sink(image);
    decoder.decode(bytes, sink, options);
    return image;
}

inline Image decode(std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
    Decoder decoder;
    return decode(decoder, bytes, options);
}

// Checks the contract of RowSink (start, rows in order, finish last; start may be repeated) and stores one row.
class RowByRow final : public RowSink {
  public:
    void start(int height, int width, int channels) override {
        started_ = true;
        height_ = height;
        rows_ = 0;
        row_.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(channels), 0);
    }
    std::uint8_t* row(int y) override {
        in_order_ = in_order_ && y == rows_ && !finished_;
        ++rows_;
        return row_.data();
    }
    void finish() override { finished_ = true; }

    int rows() const { return rows_; }
    bool finished() const { return finished_; }
    bool complete() const { return started_ && in_order_ && rows_ == height_ && finished_; }

  private:
    std::vector<std::uint8_t> row_;
    int height_ = 0;
    int rows_ = 0;
    bool started_ = false;
    bool in_order_ = true;
    bool finished_ = false;
};

// Decodes hostile bytes: returns true for a clean decode, false for a DataError. Any other exception is a defect and is
// not caught.
inline bool survives(Decoder& decoder, std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
    RowByRow sink;
    try {
        decoder.decode(bytes, sink, options);
    } catch (const DataError&) {
        return false;
    }
    if (!sink.complete()) {
        throw std::logic_error("a decode without an error did not fill its sink");
    }
    return true;
}

inline std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const DataError& error) {
        return error.what();
    }
    return "no DataError";
}

inline Bytes bytes_of(std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) {
        bytes.push_back(static_cast<std::byte>(value));
    }
    return bytes;
}

inline Bytes bytes_of(std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}

inline Bytes joined(std::initializer_list<std::span<const std::byte>> parts) {
    std::size_t size = 0;
    for (const auto part : parts) {
        size += part.size();
    }
    Bytes bytes(size);
    auto to = bytes.begin();
    for (const auto part : parts) {
        to = std::copy(part.begin(), part.end(), to);
    }
    return bytes;
}

inline void append_number(Bytes& bytes, std::uint64_t value, int size, bool big_endian) {
    for (int i = 0; i < size; ++i) {
        bytes.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? size - 1 - i : i)));
    }
}

// An EXIF block of two entries (the camera maker and the orientation), without "Exif\0\0".
inline Bytes exif_block(int orientation, bool big_endian, int type = 3, int count = 1) {
    Bytes block = bytes_of(big_endian ? std::string_view("MM") : std::string_view("II"));
    append_number(block, 42, 2, big_endian);
    append_number(block, 8, 4, big_endian);
    append_number(block, 2, 2, big_endian);
    append_number(block, 0x010F, 2, big_endian);
    append_number(block, 2, 2, big_endian);
    append_number(block, 4, 4, big_endian);
    append_number(block, 0x61626300, 4, true);
    append_number(block, 0x0112, 2, big_endian);
    append_number(block, static_cast<std::uint64_t>(type), 2, big_endian);
    append_number(block, static_cast<std::uint64_t>(count), 4, big_endian);
    append_number(block, static_cast<std::uint64_t>(orientation), type == 4 ? 4 : 2, big_endian);
    append_number(block, 0, type == 4 ? 4 : 6, big_endian);
    return block;
}

// Inserts an APP1 EXIF segment after the start marker of `jpeg`.
inline Bytes jpeg_with_exif(const Bytes& jpeg, std::span<const std::byte> block) {
    Bytes head = bytes_of({0xFF, 0xD8, 0xFF, 0xE1});
    append_number(head, block.size() + 8, 2, true);
    return joined({head, bytes_of(std::string_view("Exif\0\0", 6)), block, std::span(jpeg).subspan(2)});
}

inline std::uint32_t crc32(std::span<const std::byte> bytes) {
    std::uint32_t crc = ~0u;
    for (const std::byte byte : bytes) {
        crc ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

inline Bytes png_chunk(std::string_view type, std::span<const std::byte> data) {
    Bytes chunk;
    append_number(chunk, data.size(), 4, true);
    const Bytes body = joined({bytes_of(type), data});
    chunk.insert(chunk.end(), body.begin(), body.end());
    append_number(chunk, crc32(body), 4, true);
    return chunk;
}

// Inserts an eXIf chunk after the header of `png` (33 bytes) or before its IEND (12 bytes).
inline Bytes png_with_exif(const Bytes& png, std::span<const std::byte> block, bool behind_pixels = false) {
    const std::size_t at = behind_pixels ? png.size() - 12 : 33;
    return joined({std::span(png).first(at), png_chunk("eXIf", block), std::span(png).subspan(at)});
}

// Makes one to four random changes: flips bits, sets bytes, removes or duplicates ranges.
inline Bytes mutated(const Bytes& original, Rng& rng) {
    Bytes bytes = original;
    for (std::uint32_t changes = 1 + rng.below(4); changes > 0 && bytes.size() > 2; --changes) {
        const std::size_t at = rng.below(static_cast<std::uint32_t>(bytes.size()));
        const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        const auto length = static_cast<std::ptrdiff_t>(std::min<std::size_t>(1 + rng.below(24), bytes.size() - at));
        switch (rng.below(4)) {
            case 0:
                *place ^= std::byte{1} << rng.below(8);
                break;
            case 1:
                *place = static_cast<std::byte>(rng.chance(0.3f) ? 0xFFu : rng.below(256));
                break;
            case 2:
                bytes.erase(place, place + length);
                break;
            default: {
                const Bytes copy(place, place + length);
                bytes.insert(place, copy.begin(), copy.end());
            }
        }
    }
    return bytes;
}

}  // namespace stoker::testing
