// Records to pixels: hands out the blocks of the segments that the pixel stage asks for.
#include <cstring>

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/block_pixels.h"
#include "stoker/codecs/dct.h"
#include "stoker/codecs/dct_record.h"
#include "stoker/codecs/dct_segment.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

class RecordBlocks final : public BlockRows {
  public:
    explicit RecordBlocks(const SegmentKernels& kernels = best_segment_kernels()) : kernels_(kernels) {}

    DctHeader header;

    const std::int16_t* blocks(int component, int block_row, int first, int count) override {
        blocks_.resize(sizeof(std::int16_t) * kBlockSize * static_cast<std::size_t>(count + 3));
        auto* out = reinterpret_cast<std::int16_t*>(blocks_.data());
        const FrameComponent& own = header.frame.component[Frame::at(component)];
        const int segment = segment_number(component, block_row);
        if (!read_segment(header.chunk(segment), own.blocks_wide, first, count, kernels_, scratch_, out)) {
            throw DataError({}, {.where = "dct",
                                 .expected = "a valid segment",
                                 .got = fmt::format("damage in number {}", segment)});
        }
        return out;
    }

  private:
    int segment_number(int component, int block_row) const {
        const int v = header.frame.component[Frame::at(component)].v;
        int number = block_row / v * header.segments_per_mcu_row() + block_row % v;
        for (int c = 0; c < component; ++c) {
            number += header.frame.component[Frame::at(c)].v;
        }
        return number;
    }

    const SegmentKernels& kernels_;
    SegmentScratch scratch_;
    Buffer blocks_;
};

}  // namespace

struct DctDecoder::State {
    RecordBlocks blocks;
    BlockPixels pixels;
};

DctDecoder::DctDecoder() : state_(std::make_unique<State>()) {}
DctDecoder::DctDecoder(DctDecoder&&) noexcept = default;
DctDecoder& DctDecoder::operator=(DctDecoder&&) noexcept = default;
DctDecoder::~DctDecoder() = default;

std::optional<Codec> sniff_dct(std::span<const std::byte> bytes) {
    constexpr std::size_t kFlags = 5;
    if (bytes.size() <= kFlags || std::memcmp(bytes.data(), kDctMagic, sizeof kDctMagic) != 0) {
        return std::nullopt;
    }
    return (std::to_integer<int>(bytes[kFlags]) & DctFlags::kZstd) != 0 ? Codec::dct_zstd : Codec::dct;
}

ImageInfo DctDecoder::info(std::span<const std::byte> bytes) {
    DctHeader& header = state_->blocks.header;
    read_dct_header(bytes, header);
    return {.codec = (header.flags & DctFlags::kZstd) != 0 ? Codec::dct_zstd : Codec::dct,
            .height = header.frame.height,
            .width = header.frame.width,
            .orientation = header.orientation,
            .progressive = (header.flags & DctFlags::kProgressive) != 0};
}

void DctDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    DctHeader& header = state_->blocks.header;
    read_dct_header(bytes, header);
    const Region region = wanted_region(sink, header.frame.height, header.frame.width);
    state_->pixels.draw(header.frame, state_->blocks, region.box, sink);
    sink.finish();
}

}  // namespace stoker
