// Arbitrary bytes as JPEG, in all ways that must agree: our decoder, libjpeg, and a dct record of the file, which has
// the same pixels and restores the file.
#include <algorithm>

#include "fuzz/codecs/decode.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

template <typename Decode>
bool succeeds(Decode decode) {
    try {
        decode();
        return true;
    } catch (const DataError&) {
        return false;
    }
}

void recode(std::span<const std::byte> jpeg, ConstImageView pixels, DctKind kind) {
    static Decoder decoder;
    DctRecord record;
    if (!succeeds([&] { record = encode_dct(jpeg, kind); }) || !record.reason.empty()) {
        return;
    }
    Image again;
    ImageSink sink(again);
    require(decodes(decoder, record.bytes, sink, {}));
    require_same(again.view(), pixels);
    const std::vector<std::byte> restored = restore_jpeg(record.bytes);
    if (record.exact_file) {
        require(std::ranges::equal(restored, jpeg));
    } else {
        require(decodes(decoder, restored, sink, {}));
        require_same(again.view(), pixels);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static JpegDecoder jpeg;
    static Decoder decoder;
    static Image fast;
    static Image slow;
    const auto input = as_input(data, size);
    if (input.size() < kChoice || sniff_codec(input.subspan(kChoice)) != Codec::jpeg) {
        return 0;
    }
    const auto image = input.subspan(kChoice);
    if (!is_small(decoder, image)) {
        return 0;
    }
    ImageSink fast_sink(fast);
    ImageSink slow_sink(slow);
    const bool good = succeeds([&] { jpeg.decode_reference(image, slow_sink); });
    require(succeeds([&] { jpeg.decode(image, fast_sink); }) == good);
    if (good) {
        require_same(fast.view(), slow.view());
        const bool mend = Choice(input.first(kChoice)).mend;
        recode(image, slow.view(), mend ? DctKind::zstd : DctKind::segments);
        recode(image, slow.view(), DctKind::ans);
    }
    return 0;
}
