// Writes the formats that Stoker reads but does not write, for tests and as seeds for fuzzing: WebP with libwebp's
// encoder, BMP and PNM directly.
#pragma once

#include <webp/encode.h>

#include <fmt/format.h>

#include "codecs/fixtures.h"

namespace stoker::testing {

// `image` has 3 or 4 channels. Lossy at quality 80.
inline Bytes encode_webp(ConstImageView image, bool lossless) {
    std::uint8_t* data = nullptr;
    const auto stride = static_cast<int>(image.stride);
    const bool alpha = image.channels == 4;
    std::size_t size = 0;
    if (lossless) {
        size = (alpha ? WebPEncodeLosslessRGBA : WebPEncodeLosslessRGB)(image.data, image.width, image.height, stride,
                                                                        &data);
    } else {
        size = (alpha ? WebPEncodeRGBA : WebPEncodeRGB)(image.data, image.width, image.height, stride, 80, &data);
    }
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    Bytes bytes(begin, begin + size);
    WebPFree(data);
    return bytes;
}

inline Bytes webp_chunk(std::string_view name, std::span<const std::byte> data) {
    Bytes chunk = bytes_of(name);
    append_number(chunk, data.size(), 4, false);
    chunk.insert(chunk.end(), data.begin(), data.end());
    chunk.resize(chunk.size() + data.size() % 2);
    return chunk;
}

inline Bytes webp_file(std::span<const std::byte> chunks) {
    return joined({webp_chunk("RIFF", joined({bytes_of("WEBP"), chunks}))});
}

// The "extended" header: flags of further chunks and the size of the canvas.
inline Bytes webp_extension(int flags, int height, int width) {
    Bytes data;
    append_number(data, static_cast<std::uint64_t>(flags), 4, false);
    append_number(data, static_cast<std::uint64_t>(width - 1), 3, false);
    append_number(data, static_cast<std::uint64_t>(height - 1), 3, false);
    return webp_chunk("VP8X", data);
}

// Appends an EXIF block to `webp`, which has one chunk.
inline Bytes webp_with_exif(const Bytes& webp, int height, int width, std::span<const std::byte> block) {
    constexpr int kHasExif = 8;
    return webp_file(
        joined({webp_extension(kHasExif, height, width), std::span(webp).subspan(12), webp_chunk("EXIF", block)}));
}

struct WebpCanvas {
    int height = 0;  // 0: as large as the frame
    int width = 0;
    int top = 0;  // of the frame; even, as is `left`
    int left = 0;
};

// An animation of two frames, both `webp`, whose size is said to be (height, width).
inline Bytes animated_webp(const Bytes& webp, int height, int width, WebpCanvas canvas = {}) {
    constexpr int kAnimated = 2;
    canvas.height = canvas.height == 0 ? height : canvas.height;
    canvas.width = canvas.width == 0 ? width : canvas.width;
    Bytes frame;
    append_number(frame, static_cast<std::uint64_t>(canvas.left / 2), 3, false);
    append_number(frame, static_cast<std::uint64_t>(canvas.top / 2), 3, false);
    append_number(frame, static_cast<std::uint64_t>(width - 1), 3, false);
    append_number(frame, static_cast<std::uint64_t>(height - 1), 3, false);
    append_number(frame, 100, 4, false);  // milliseconds and flags
    const Bytes shown = webp_chunk("ANMF", joined({frame, std::span(webp).subspan(12)}));
    return webp_file(
        joined({webp_extension(kAnimated, canvas.height, canvas.width), webp_chunk("ANIM", Bytes(6)), shown, shown}));
}

struct BmpKind {
    int bits = 24;
    int header = 40;  // bytes: 12, 40, 108 or 124
    bool top_down = false;
    bool masked = false;  // 32 bits with masks: red in the lowest byte; 16 bits: 5, 6 and 5 bits
    int colors = 0;       // stated size of the palette; 0: all
};

inline Bytes bmp_header(const BmpKind& kind, std::int64_t height, std::int64_t width, std::size_t palette) {
    const bool core = kind.header == 12;
    Bytes bytes = bytes_of("BM");
    append_number(bytes, 0, 8, false);  // size and two unused numbers, which writers do not set reliably
    const std::size_t masks = kind.masked && kind.header == 40 ? 12 : 0;
    append_number(bytes, 14 + static_cast<std::size_t>(kind.header) + masks + palette, 4, false);
    append_number(bytes, static_cast<std::uint64_t>(kind.header), 4, false);
    append_number(bytes, static_cast<std::uint64_t>(width), core ? 2 : 4, false);
    append_number(bytes, static_cast<std::uint64_t>(kind.top_down ? -height : height), core ? 2 : 4, false);
    append_number(bytes, 1, 2, false);
    append_number(bytes, static_cast<std::uint64_t>(kind.bits), 2, false);
    if (!core) {
        append_number(bytes, kind.masked ? 3 : 0, 4, false);
        append_number(bytes, 0, 8, false);
        append_number(bytes, 0, 4, false);
        append_number(bytes, static_cast<std::uint64_t>(kind.colors), 4, false);
        append_number(bytes, 0, 4, false);
        const std::uint32_t masks_of_32[] = {0xFFu, 0xFF00u, 0xFF0000u};
        const std::uint32_t masks_of_16[] = {0xF800u, 0x7E0u, 0x1Fu};
        for (const std::uint32_t mask : kind.bits == 16 ? masks_of_16 : masks_of_32) {
            if (kind.masked) {
                append_number(bytes, mask, 4, false);
            }
        }
        bytes.resize(14 + static_cast<std::size_t>(kind.header) + masks);
    }
    return bytes;
}

struct Written {
    Bytes bytes;
    Image expected;  // RGB
};

// A BMP of this kind with random pixels.
inline Written random_bmp(const BmpKind& kind, int height, int width, std::uint64_t seed = 6) {
    Rng rng({.seed = seed});
    const auto byte = [&] { return static_cast<std::uint8_t>(rng.below(256)); };
    const auto count = static_cast<std::size_t>(kind.bits > 8 ? 0 : kind.colors > 0 ? kind.colors : 1 << kind.bits);
    Image palette(1, static_cast<int>(count), 3);
    Bytes stored;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint8_t* color = palette.view().data + 3 * i;
        for (int c = 2; c >= 0; --c) {
            color[c] = byte();
            stored.push_back(static_cast<std::byte>(color[c]));
        }
        stored.resize(stored.size() + (kind.header == 12 ? 0 : 1));
    }
    Written written{bmp_header(kind, height, width, stored.size()), Image(height, width, 3)};
    written.bytes = joined({written.bytes, stored});
    for (int line = 0; line < height; ++line) {
        std::uint8_t* pixel = written.expected.view().row(kind.top_down ? line : height - 1 - line);
        Bytes row;
        for (int x = 0; x < width; ++x, pixel += 3) {
            if (kind.bits <= 8) {
                const auto index = rng.below(static_cast<std::uint32_t>(count));
                const auto bit = static_cast<std::size_t>(x * kind.bits);
                row.resize(bit / 8 + 1);
                row.back() |= static_cast<std::byte>(index << (8 - static_cast<std::size_t>(kind.bits) - bit % 8));
                std::memcpy(pixel, palette.view().data + 3 * index, 3);
                continue;
            }
            if (kind.bits == 16) {
                const std::uint32_t color = rng.below(65536);
                const std::uint32_t green = kind.masked ? 63 : 31;
                const std::uint32_t red = color >> (kind.masked ? 11 : 10) & 31;
                pixel[0] = static_cast<std::uint8_t>(red * 255 / 31);
                pixel[1] = static_cast<std::uint8_t>((color >> 5 & green) * 255 / green);
                pixel[2] = static_cast<std::uint8_t>((color & 31) * 255 / 31);
                append_number(row, color, 2, false);
                continue;
            }
            for (int c = 0; c < 3; ++c) {
                pixel[kind.masked ? c : 2 - c] = byte();
                row.push_back(static_cast<std::byte>(pixel[kind.masked ? c : 2 - c]));
            }
            if (kind.bits == 32) {
                row.push_back(static_cast<std::byte>(byte()));  // alpha
            }
        }
        row.resize((row.size() + 3) / 4 * 4);
        written.bytes = joined({written.bytes, row});
    }
    return written;
}

// A run-length encoded BMP of 4 or 8 bits: colour i of its palette is the grey level 10 * i.
inline Bytes bmp_of_runs(int bits, int height, int width, const Bytes& runs) {
    Bytes palette;
    for (int i = 0; i < 1 << bits; ++i) {
        append_number(palette, static_cast<std::uint64_t>(i * 10 % 256) * 0x10101, 4, false);
    }
    Bytes bytes = bmp_header({.bits = bits}, height, width, palette.size());
    bytes[30] = static_cast<std::byte>(bits == 8 ? 1 : 2);
    return joined({bytes, palette, runs});
}

// Runs for 3 rows of 5 pixels: a run, a literal of odd length, a skip, the end of a row and of the image.
inline Bytes bmp_runs(int bits) {
    return bits == 8 ? bytes_of({3, 7, 2, 1, 0, 0, 0, 3, 1, 2, 3, 0, 0, 2, 1, 0, 1, 9, 0, 0, 5, 4, 0, 1})
                     : bytes_of({3, 0x71, 2, 0x11, 0, 0, 0, 3, 0x12, 0x30, 0, 2, 1, 0, 1, 0x90, 0, 0, 5, 0x44, 0, 1});
}

// The image that bmp_runs describes: the rows from top to bottom.
inline std::vector<int> bmp_runs_indices(int bits) {
    return bits == 8 ? std::vector{4, 4, 4, 4, 4, 1, 2, 3, 0, 9, 7, 7, 7, 1, 1}
                     : std::vector{4, 4, 4, 4, 4, 1, 2, 3, 0, 9, 7, 1, 7, 1, 1};
}

// `header` as "P6\n# a comment\n%d %d %d\n" and random samples up to `largest`.
inline Written random_pnm(int channels, int height, int width, std::uint32_t largest, std::uint64_t seed = 7) {
    Rng rng({.seed = seed});
    Written written{bytes_of(fmt::format("P{}\n# made\n {} {}\t{}\n", channels == 3 ? 6 : 5, width, height, largest)),
                    Image(height, width, 3)};
    for (int i = 0; i < height * width; ++i) {
        std::uint8_t* pixel = written.expected.view().data + 3 * i;
        for (int c = 0; c < channels; ++c) {
            const std::uint32_t value = rng.below(largest + 1);
            append_number(written.bytes, value, largest > 255 ? 2 : 1, true);
            // Rounded to the nearest level. On ties both neighbours are accepted, see pnm_test.cpp.
            pixel[c] = static_cast<std::uint8_t>((value * 510 + largest) / (2 * largest));
        }
        if (channels == 1) {
            pixel[1] = pixel[2] = pixel[0];
        }
    }
    return written;
}

}  // namespace stoker::testing
