// Records back to JPEGs: either head, re-coded scan and tail, or a new baseline file (jpeg_rewrite.h).
#include "stoker/base/error.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_blocks.h"
#include "stoker/codecs/jpeg/huffman_writer.h"
#include "stoker/codecs/jpeg/jpeg_rewrite.h"

namespace stoker {
namespace {

JpegBlocks all_blocks(DctBlocks& record) {
    JpegBlocks jpeg{.frame = record.header().frame, .blocks = {}};
    const JpegFrame& frame = jpeg.frame;
    for (int row = 0; row < frame.mcus_high; ++row) {
        for (int c = 0; c < frame.components; ++c) {
            const FrameComponent& component = frame.component[JpegFrame::at(c)];
            for (int i = 0; i < component.v; ++i) {
                const std::int16_t* blocks = record.blocks(c, row * component.v + i, 0, component.blocks_wide);
                jpeg.blocks[c].insert(jpeg.blocks[c].end(), blocks,
                                      blocks + std::ptrdiff_t{kBlockSize} * component.blocks_wide);
            }
        }
    }
    return jpeg;
}

[[noreturn]] void refuse(const char* got) {
    throw DataError({}, {.where = "dct", .expected = "a record that holds its JPEG's header", .got = got});
}

}  // namespace

std::vector<std::byte> restore_jpeg(std::span<const std::byte> dct) {
    DctBlocks record;
    record.open(dct);
    const DctHeader& header = record.header();
    const JpegBlocks jpeg = all_blocks(record);
    JpegReader reader;
    const std::vector<std::byte> head = unpack_head(header);
    const JpegReader::Session session(reader, head);
    const jpeg_decompress_struct& codec = reader.codec();
    if (codec.num_components != header.frame.components) {
        refuse("a header with other components");
    }
    if ((header.flags & DctFlags::kExactFile) == 0) {
        std::vector<std::byte> file = rewrite_jpeg(codec, jpeg, head);
        if (file.empty()) {
            refuse("values that no baseline JPEG can hold");
        }
        return file;
    }
    if (!is_baseline_scan(codec)) {
        refuse("a header that is not baseline");
    }
    const std::vector<std::byte> scan = write_huffman_scan(jpeg, scan_huffman_tables(codec), codec.restart_interval);
    if (scan.empty()) {
        refuse("Huffman tables without codes for all values");
    }
    std::vector<std::byte> file(head);
    file.insert(file.end(), scan.begin(), scan.end());
    file.insert(file.end(), header.tail.begin(), header.tail.end());
    return file;
}

}  // namespace stoker
