// Arbitrary bytes as PNM.
#include "fuzz/codecs/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    stoker::fuzz::decode_input(stoker::Codec::pnm, stoker::fuzz::as_input(data, size));
    return 0;
}
