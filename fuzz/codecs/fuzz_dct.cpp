// Arbitrary bytes as a dct record: decoded, and restored to a JPEG. A forged record may have other pixels than its
// JPEG; fuzz_recode.cpp compares them for records that encode_dct wrote.
#include "fuzz/codecs/decode.h"
#include "stoker/codecs/dct/dct.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void restore(std::span<const std::byte> record) {
    static Decoder decoder;
    static Image image;
    try {
        const std::vector<std::byte> jpeg = restore_jpeg(record);
        ImageSink sink(image);
        decodes(decoder, jpeg, sink, {});
    } catch (const DataError&) {
        return;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = as_input(data, size);
    if (input.size() < kChoice || !sniff_dct(input.subspan(kChoice))) {
        return 0;
    }
    static Decoder decoder;
    if (is_small(decoder, input.subspan(kChoice))) {
        decode_input(*sniff_codec(input.subspan(kChoice)), input);
        restore(input.subspan(kChoice));
    }
    return 0;
}
