// Arbitrary bytes as PNG. Checksums are corrected, because they would stop the damage before it reaches other code.
#include <zlib.h>

#include "fuzz/codecs/decode.h"
#include "stoker/codecs/byte_order.h"

namespace {

constexpr std::size_t kSignature = 8;

// A chunk: length of the data, name, data, checksum of name and data.
void mend_checksums(std::vector<std::byte>& image) {
    std::size_t chunk = kSignature;
    while (chunk <= image.size() && image.size() - chunk >= 12) {
        const std::size_t length = stoker::load_be(image, chunk, 4);
        if (length > image.size() - chunk - 12) {
            return;
        }
        const auto* checked = reinterpret_cast<const Bytef*>(image.data()) + chunk + 4;
        const auto sum = static_cast<std::uint32_t>(::crc32(0, checked, static_cast<uInt>(length + 4)));
        for (std::size_t i = 0; i < 4; ++i) {
            image[chunk + 8 + length + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
        }
        chunk += 12 + length;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    stoker::fuzz::decode_input(stoker::Codec::png, stoker::fuzz::as_input(data, size), mend_checksums);
    return 0;
}
