// Records to pixels: DctBlocks reads the blocks, BlockDecoder converts them to RGB.
#include <cstring>

#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

Codec codec_of(int flags) {
    return (flags & DctFlags::kAns) != 0    ? Codec::dct_ans
           : (flags & DctFlags::kZstd) != 0 ? Codec::dct_zstd
                                            : Codec::dct;
}

}  // namespace

std::optional<Codec> sniff_dct(std::span<const std::byte> bytes) {
    constexpr std::size_t kFlags = 5;
    if (bytes.size() <= kFlags || std::memcmp(bytes.data(), kDctMagic, sizeof kDctMagic) != 0) {
        return std::nullopt;
    }
    return codec_of(std::to_integer<int>(bytes[kFlags]));
}

ImageInfo dct_info(const DctHeader& header) {
    return {.codec = codec_of(header.flags),
            .height = header.frame.height,
            .width = header.frame.width,
            .orientation = header.orientation,
            .progressive = (header.flags & DctFlags::kProgressive) != 0};
}

ImageInfo DctDecoder::info(std::span<const std::byte> bytes) {
    blocks_.open(bytes);
    return dct_info(blocks_.header());
}

void DctDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    blocks_.open(bytes);
    const DctHeader& header = blocks_.header();
    const Region region = checked_region(sink, header.frame.height, header.frame.width);
    pixels_.decode(header.frame, blocks_, region, sink);
    sink.finish();
}

}  // namespace stoker
