// Arbitrary bytes as a dct record: decoded, also without vector sets, and restored to a JPEG. A forged record may have
// other pixels than its JPEG; fuzz_recode.cpp compares them for records that encode_dct wrote.
#include <string>

#include "fuzz/codecs/decode.h"
#include "stoker/codecs/dct/dct.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

// The whole image by one set of kernels. Returns the error, or "".
struct Way {
    DctBlocks blocks;
    BlockDecoder pixels;
    Image image;

    std::string decode(std::span<const std::byte> record) {
        try {
            blocks.open(record);
            const JpegFrame& frame = blocks.header().frame;
            ImageSink sink(image);
            pixels.decode(frame, blocks, {.box = {0, 0, frame.height, frame.width}}, sink);
        } catch (const DataError& error) {
            return error.what();
        }
        return "";
    }
};

void compare_sets(std::span<const std::byte> record) {
    static Way best;
    static Way plain = {.blocks = DctBlocks(kPlainSegmentKernels, kPlainAnsKernels),
                        .pixels = BlockDecoder(kPlainBlockKernels),
                        .image = {}};
    const std::string error = best.decode(record);
    require(plain.decode(record) == error);
    if (error.empty()) {
        require_same(plain.image.view(), best.image.view());
    }
}

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
        compare_sets(input.subspan(kChoice));
        restore(input.subspan(kChoice));
    }
    return 0;
}
