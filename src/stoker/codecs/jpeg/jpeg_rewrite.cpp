// Writes the marker segments of T.81, annex B. The Huffman tables are libjpeg's standard ones, which have a code for
// every value of an 8-bit image.
#include "stoker/codecs/jpeg/jpeg_rewrite.h"

#include <algorithm>

#include "stoker/codecs/jpeg/huffman_writer.h"

namespace stoker {
namespace {

enum Marker : std::uint8_t {
    kSof0 = 0xc0,
    kSof1 = 0xc1,
    kDht = 0xc4,
    kSoi = 0xd8,
    kEoi = 0xd9,
    kSos = 0xda,
    kDqt = 0xdb
};

void put(std::vector<std::byte>& out, std::initializer_list<int> bytes) {
    for (const int byte : bytes) {
        out.push_back(static_cast<std::byte>(byte));
    }
}

void put16(std::vector<std::byte>& out, std::size_t value) {
    put(out, {static_cast<int>(value >> 8), static_cast<int>(value & 0xff)});
}

void put_segment(std::vector<std::byte>& out, int marker, const std::vector<std::byte>& content) {
    put(out, {0xff, marker});
    put16(out, content.size() + 2);
    out.insert(out.end(), content.begin(), content.end());
}

// Copies APP0 to APP15 and comments. Some of them define the colour space.
void copy_application_segments(std::span<const std::byte> head, std::vector<std::byte>& out) {
    const auto byte = [head](std::size_t i) { return std::to_integer<std::size_t>(head[i]); };
    for (std::size_t at = 2; at + 4 <= head.size();) {
        if (byte(at) != 0xff || byte(at + 1) == 0xff) {
            ++at;  // fill bytes
            continue;
        }
        const std::size_t marker = byte(at + 1);
        const std::size_t size = 2 + (byte(at + 2) << 8 | byte(at + 3));
        if (size > head.size() - at) {
            return;
        }
        if ((marker >= 0xe0 && marker <= 0xef) || marker == 0xfe) {
            out.insert(out.end(), head.begin() + static_cast<std::ptrdiff_t>(at),
                       head.begin() + static_cast<std::ptrdiff_t>(at + size));
        }
        at += size;
    }
}

void put_quant_tables(const JpegFrame& frame, std::vector<std::byte>& out) {
    for (int c = 0; c < frame.components; ++c) {
        const auto& quant = frame.component[JpegFrame::at(c)].quant;
        const bool wide = std::any_of(quant.begin(), quant.end(), [](std::uint16_t step) { return step > 255; });
        std::vector<std::byte> content;
        put(content, {(wide ? 0x10 : 0) | c});
        for (const std::uint8_t place : kZigzag) {
            if (wide) {
                put16(content, quant[place]);
            } else {
                put(content, {quant[place]});
            }
        }
        put_segment(out, kDqt, content);
    }
}

void put_frame(const jpeg_decompress_struct& codec, const JpegFrame& frame, std::vector<std::byte>& out) {
    bool wide = false;
    std::vector<std::byte> content;
    put(content, {8});
    put16(content, static_cast<std::size_t>(frame.height));
    put16(content, static_cast<std::size_t>(frame.width));
    put(content, {frame.components});
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& comp = frame.component[JpegFrame::at(c)];
        put(content, {codec.comp_info[c].component_id, comp.h << 4 | comp.v, c});
        wide = wide || std::any_of(comp.quant.begin(), comp.quant.end(), [](std::uint16_t step) { return step > 255; });
    }
    put_segment(out, wide ? kSof1 : kSof0, content);
}

void put_huffman_table(int place, const JHUFF_TBL& table, std::vector<std::byte>& out) {
    std::vector<std::byte> content;
    put(content, {place});
    int symbols = 0;
    for (int length = 1; length <= 16; ++length) {
        put(content, {table.bits[length]});
        symbols += table.bits[length];
    }
    for (int i = 0; i < symbols; ++i) {
        put(content, {table.huffval[i]});
    }
    put_segment(out, kDht, content);
}

void put_scan_header(const jpeg_decompress_struct& codec, int components, std::vector<std::byte>& out) {
    std::vector<std::byte> content;
    put(content, {components});
    for (int c = 0; c < components; ++c) {
        put(content, {codec.comp_info[c].component_id, c == 0 ? 0x00 : 0x11});
    }
    put(content, {0, 63, 0});
    put_segment(out, kSos, content);
}

}  // namespace

std::vector<std::byte> rewrite_jpeg(const jpeg_decompress_struct& codec, const JpegBlocks& jpeg,
                                    std::span<const std::byte> head) {
    const HuffmanTables tables = standard_huffman_tables();
    const std::vector<std::byte> scan = write_huffman_scan(jpeg, tables, 0);
    if (scan.empty()) {
        return {};
    }
    std::vector<std::byte> out;
    put(out, {0xff, kSoi});
    copy_application_segments(head, out);
    put_quant_tables(jpeg.frame, out);
    put_frame(codec, jpeg.frame, out);
    for (int i = 0; i < (jpeg.frame.components == 1 ? 1 : 2); ++i) {
        put_huffman_table(i, tables.dc[i], out);
        put_huffman_table(0x10 | i, tables.ac[i], out);
    }
    put_scan_header(codec, jpeg.frame.components, out);
    out.insert(out.end(), scan.begin(), scan.end());
    put(out, {0xff, kEoi});
    return out;
}

}  // namespace stoker
