// Arbitrary bytes as JPEG.
#include "fuzz/codecs/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    stoker::fuzz::decode_input(stoker::Codec::jpeg, stoker::fuzz::as_input(data, size));
    return 0;
}
