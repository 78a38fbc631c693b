// Records to pixels: DctBlocks reads the blocks, BlockDecoder converts them to RGB.
#include <cstring>

#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_blocks.h"
#include "stoker/codecs/jpeg/block_decoder.h"
#include "stoker/codecs/region.h"

namespace stoker {
struct DctDecoder::State {
    DctBlocks blocks;
    BlockDecoder pixels;
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
    state_->blocks.open(bytes);
    const DctHeader& header = state_->blocks.header();
    return {.codec = (header.flags & DctFlags::kZstd) != 0 ? Codec::dct_zstd : Codec::dct,
            .height = header.frame.height,
            .width = header.frame.width,
            .orientation = header.orientation,
            .progressive = (header.flags & DctFlags::kProgressive) != 0};
}

void DctDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    state_->blocks.open(bytes);
    const DctHeader& header = state_->blocks.header();
    const Region region = checked_region(sink, header.frame.height, header.frame.width);
    state_->pixels.decode(header.frame, state_->blocks, region, sink);
    sink.finish();
}

}  // namespace stoker
