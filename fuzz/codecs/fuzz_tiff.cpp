// Arbitrary bytes as TIFF: decoding throws only DataError and MemoryError, and gives what the header says.
#include <new>

#include "fuzz/codecs/decode.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/tiff.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    const std::span<const std::byte> bytes = fuzz::as_input(data, size);
    if (bytes.empty() || !is_tiff(bytes.subspan(1))) {
        return 0;
    }
    const unsigned choice = std::to_integer<unsigned>(bytes[0]);
    TiffOptions options{.indices = (choice & 1) != 0, .channels = (choice & 2) != 0 ? 3 : (choice & 4) != 0};
    try {
        const std::vector<std::uint64_t> pages = tiff_pages(bytes.subspan(1), 8);
        options.page = pages[(choice >> 3) % pages.size()];
        const TiffImage header = read_tiff_header(bytes.subspan(1), options);
        if (std::int64_t{header.height} * header.width > fuzz::kLargest) {
            return 0;
        }
        Buffer pixels;
        const TiffImage image = decode_tiff(bytes.subspan(1), pixels, options);
        fuzz::require(image.height == header.height && image.width == header.width && image.dtype == header.dtype &&
                      image.channels == header.channels);
        fuzz::require(pixels.size() == static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                           static_cast<std::size_t>(image.channels) * item_size(image.dtype));
    } catch (const DataError&) {
    } catch (const MemoryError&) {
    }
    return 0;
}
