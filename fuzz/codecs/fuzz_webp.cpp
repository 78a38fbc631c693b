// Arbitrary bytes as WebP. The container's size field is corrected; otherwise every change of length would be refused
// early.
#include "fuzz/codecs/decode.h"

namespace {

void mend_size(std::vector<std::byte>& image) {
    if (image.size() < 8) {
        return;
    }
    for (std::size_t i = 0; i < 4; ++i) {
        image[4 + i] = static_cast<std::byte>((image.size() - 8) >> 8 * i);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    stoker::fuzz::decode_input(stoker::Codec::webp, stoker::fuzz::as_input(data, size), mend_size);
    return 0;
}
