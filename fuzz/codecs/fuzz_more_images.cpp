// Arbitrary bytes as AVIF, HEIC, JPEG XL, GIF or JPEG 2000.
#include "fuzz/codecs/decode.h"
#include "fuzz/codecs/known_leaks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    const std::span<const std::byte> input = fuzz::as_input(data, size);
    if (input.size() < fuzz::kChoice) {
        return 0;
    }
    const std::optional<Codec> codec = sniff_codec(input.subspan(fuzz::kChoice));
    if (codec != Codec::avif && codec != Codec::heic && codec != Codec::jxl && codec != Codec::gif &&
        codec != Codec::jpeg2000) {
        return 0;
    }
    try {
        fuzz::decode_input(*codec, input);
    } catch (const IoError&) {  // too little memory, or the libraries are not installed
    }
    return 0;
}
