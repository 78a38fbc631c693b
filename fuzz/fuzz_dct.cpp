// Arbitrary bytes as a dct record: decoded, and turned back into the JPEG that it claims to be. Where both
// work, libjpeg must find the same pixels in that JPEG.
#include "decode.h"
#include "stoker/codecs/dct.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void restore(std::span<const std::byte> record) {
    static Decoder decoder;
    std::vector<std::byte> jpeg;
    try {
        jpeg = restore_jpeg(record);
    } catch (const DataError&) {
        return;
    }
    Image ours;
    Image theirs;
    ImageSink our_sink(ours);
    ImageSink their_sink(theirs);
    if (decodes(decoder, record, our_sink, false) && decodes(decoder, jpeg, their_sink, false)) {
        require_same(ours.view(), theirs.view());
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
