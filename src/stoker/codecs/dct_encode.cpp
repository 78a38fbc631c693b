// JPEGs to records. Whatever the argument for losslessness says, each record is decoded again here and compared
// with libjpeg's pixels before it may replace the JPEG.
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/codecs/dct.h"
#include "stoker/codecs/dct_record.h"
#include "stoker/codecs/dct_segment.h"
#include "stoker/codecs/jpeg.h"
#include "stoker/codecs/jpeg_blocks.h"

namespace stoker {
namespace {

// The segments in the order of the MCU rows, within each by component.
void write_segments(const JpegBlocks& jpeg, std::vector<std::byte>& body, std::vector<std::uint32_t>& ends) {
    for (int mcu_row = 0; mcu_row < jpeg.frame.mcus_high; ++mcu_row) {
        for (int c = 0; c < jpeg.frame.components; ++c) {
            const FrameComponent& component = jpeg.frame.component[Frame::at(c)];
            for (int i = 0; i < component.v; ++i) {
                const std::ptrdiff_t row = mcu_row * component.v + i;
                write_segment(jpeg.blocks[c].data() + row * kBlockSize * component.blocks_wide, component.blocks_wide,
                              body);
                ends.push_back(static_cast<std::uint32_t>(body.size()));
            }
        }
    }
}

bool same_pixels(std::span<const std::byte> jpeg, std::span<const std::byte> record) {
    Image expected;
    Image got;
    ImageSink expected_sink(expected);
    ImageSink got_sink(got);
    JpegDecoder().decode(jpeg, expected_sink);
    DctDecoder().decode(record, got_sink);
    return expected.height() == got.height() && expected.width() == got.width() &&
           std::memcmp(expected.view().data, got.view().data, expected.bytes()) == 0;
}

}  // namespace

DctRecord encode_dct(std::span<const std::byte> jpeg, const DctOptions& /*options*/) {
    JpegReader reader;
    DctRecord result;
    std::vector<std::byte> body;
    DctHeader header;
    {
        const JpegReader::Session session(reader, jpeg);
        const std::size_t head = jpeg.size() - reader.rest().size();
        if (!read_frame(reader.codec(), header.frame)) {
            result.reason = "its colours or sampling factors are not those of an ordinary JPEG";
            return result;
        }
        header.orientation = static_cast<std::uint8_t>(reader.info().orientation);
        header.flags = reader.info().progressive ? DctFlags::kProgressive : 0;
        const JpegBlocks blocks = read_blocks(reader, header.frame);
        header.frame = blocks.frame;
        header.head = jpeg.first(head);
        write_segments(blocks, body, header.ends);
        header.body = body;
    }
    result.bytes = write_dct_record(header);
    if (!same_pixels(jpeg, result.bytes)) {
        result.bytes.clear();
        result.reason = "its pixels depend on more than its coefficients";
    }
    return result;
}

}  // namespace stoker
