// JPEGs to records. Each record is decoded again here and compared with libjpeg's pixels before it may replace the
// JPEG, so losslessness does not depend on our code being right.
#include <algorithm>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/dct/ans_group.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_group.h"
#include "stoker/codecs/dct/dct_record.h"
#include "stoker/codecs/jpeg/huffman_writer.h"
#include "stoker/codecs/jpeg/jpeg.h"
#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {
namespace {

std::uint8_t flag_of(DctKind kind) {
    return kind == DctKind::ans ? DctFlags::kAns : kind == DctKind::zstd ? DctFlags::kZstd : 0;
}

// The MCU rows of a group, which has about 64 pixel rows with zstd and 32 with rANS.
std::uint8_t group_rows(DctKind kind, const JpegFrame& frame) {
    const int pixels = kind == DctKind::ans ? 32 : kind == DctKind::zstd ? 64 : 0;
    return static_cast<std::uint8_t>(std::max(pixels / (kBlockSide * frame.v_max), 1));
}

const std::int16_t* row_of(const JpegBlocks& jpeg, int c, int block_row) {
    const int wide = jpeg.frame.component[JpegFrame::at(c)].blocks_wide;
    return jpeg.blocks[c].data() + std::ptrdiff_t{kBlockSize} * block_row * wide;
}

std::vector<std::byte> ans_group(const JpegBlocks& jpeg, int mcu_row, int mcu_rows) {
    AnsPlane planes[3];
    for (int c = 0; c < jpeg.frame.components; ++c) {
        const FrameComponent& component = jpeg.frame.component[JpegFrame::at(c)];
        planes[c] = {.wide = static_cast<std::size_t>(component.blocks_wide),
                     .rows = static_cast<std::size_t>(mcu_rows * component.v),
                     .blocks = row_of(jpeg, c, mcu_row * component.v)};
    }
    return write_ans_group({planes, static_cast<std::size_t>(jpeg.frame.components)});
}

void append(std::vector<std::byte>& body, DctHeader& header, std::span<const std::byte> bytes) {
    body.insert(body.end(), bytes.begin(), bytes.end());
    header.ends.push_back(static_cast<std::uint32_t>(body.size()));
}

// Writes the groups of rANS in their order: one per chunk.
std::vector<std::byte> ans_body(const JpegBlocks& jpeg, DctHeader& header) {
    std::vector<std::byte> body;
    for (int mcu_row = 0; mcu_row < jpeg.frame.mcus_high; mcu_row += header.group_rows) {
        const int rows = std::min<int>(header.group_rows, jpeg.frame.mcus_high - mcu_row);
        append(body, header, ans_group(jpeg, mcu_row, rows));
    }
    return body;
}

// Writes the segments in their order (dct_blocks.cpp): one per chunk, or with zstd one group per chunk.
std::vector<std::byte> segment_body(const JpegBlocks& jpeg, DctHeader& header) {
    const bool grouped = header.grouped();
    std::vector<std::byte> body;
    SegmentParts parts;
    std::vector<std::byte> segment;
    const auto close = [&] {
        if (grouped) {
            append(body, header, write_group(parts));
        } else {
            join_segment(parts, segment);
            append(body, header, segment);
        }
        parts.clear();
    };
    for (int mcu_row = 0; mcu_row < jpeg.frame.mcus_high; ++mcu_row) {
        for (int c = 0; c < jpeg.frame.components; ++c) {
            const FrameComponent& component = jpeg.frame.component[JpegFrame::at(c)];
            for (int i = 0; i < component.v; ++i) {
                write_segment(row_of(jpeg, c, mcu_row * component.v + i), component.blocks_wide, parts);
                if (!grouped) {
                    close();
                }
            }
        }
        if (grouped && ((mcu_row + 1) % header.group_rows == 0 || mcu_row + 1 == jpeg.frame.mcus_high)) {
            close();
        }
    }
    return body;
}

bool has_small_steps(const JpegFrame& frame) {
    for (int c = 0; c < frame.components; ++c) {
        if (std::ranges::any_of(frame.component[JpegFrame::at(c)].quant, [](int step) { return step > 255; })) {
            return false;
        }
    }
    return true;
}

// The pixels that records are compared with.
Image libjpeg_pixels(std::span<const std::byte> jpeg) {
    Image image;
    ImageSink sink(image);
    JpegDecoder().decode_reference(jpeg, sink);
    return image;
}

Image record_pixels(std::span<const std::byte> record) {
    Image image;
    ImageSink sink(image);
    DctDecoder().decode(record, sink);
    return image;
}

bool same_pixels(const Image& a, const Image& b) {
    return a.height() == b.height() && a.width() == b.width() &&
           std::memcmp(a.view().data, b.view().data, a.bytes()) == 0;
}

// True if restore_jpeg returns the original file or, without the exact-file flag, a JPEG with its pixels.
bool restores(const DctRecord& record, std::span<const std::byte> jpeg, const Image& expected) {
    try {
        const std::vector<std::byte> file = restore_jpeg(record.bytes);
        return record.exact_file ? std::ranges::equal(file, jpeg) : same_pixels(libjpeg_pixels(file), expected);
    } catch (const DataError&) {
        return false;
    }
}

}  // namespace

DctRecord encode_dct(std::span<const std::byte> jpeg, DctKind kind) {
    DctRecord result;
    JpegReader reader;
    const JpegReader::Session session(reader, jpeg);
    const jpeg_decompress_struct& codec = reader.codec();
    DctHeader header;
    if (!read_frame(codec, header.frame)) {
        result.reason = "its colour space, bit depth or sampling factors are not supported";
        return result;
    }
    const std::size_t head = jpeg.size() - reader.rest().size();
    const bool baseline = is_baseline_scan(codec);
    const HuffmanTables tables = baseline ? scan_huffman_tables(codec) : HuffmanTables{};
    header.orientation = static_cast<std::uint8_t>(reader.info().orientation);
    header.flags = flag_of(kind);
    if (reader.info().progressive) {
        header.flags |= DctFlags::kProgressive;
    }
    header.group_rows = group_rows(kind, header.frame);
    header.head = jpeg.first(head);
    const unsigned restart_interval = codec.restart_interval;
    const MemoryClaim claim(3 * coefficient_bytes(codec));  // libjpeg's, our blocks, and the record
    const JpegBlocks blocks = read_blocks(reader, header.frame);
    header.frame = blocks.frame;
    if (baseline) {
        const std::vector<std::byte> scan = write_huffman_scan(blocks, tables, restart_interval);
        if (!scan.empty() && std::ranges::mismatch(scan, jpeg.subspan(head)).in1 == scan.end()) {
            header.flags |= DctFlags::kExactFile;
            header.tail = jpeg.subspan(head + scan.size());
            result.exact_file = true;
        }
    }
    std::vector<std::byte> packed;
    if (kind == DctKind::ans && has_small_steps(header.frame) && head <= kMaxPackedHead) {
        packed = pack_head(header.frame, header.head);
        header.head = packed;
        header.flags |= DctFlags::kSmall;
    }
    const std::vector<std::byte> body = kind == DctKind::ans ? ans_body(blocks, header) : segment_body(blocks, header);
    header.body = body;
    result.bytes = write_dct_record(header);
    const Image expected = libjpeg_pixels(jpeg);
    const bool same = same_pixels(record_pixels(result.bytes), expected);
    if (!same || !restores(result, jpeg, expected)) {
        result = {.bytes = {},
                  .reason = same ? "it holds values that a baseline JPEG of one scan cannot store"
                                 : "its pixels depend on more than its coefficients",
                  .exact_file = false};
    }
    return result;
}

}  // namespace stoker
