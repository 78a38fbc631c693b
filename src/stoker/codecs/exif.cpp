// Reads the first TIFF directory (TIFF 6.0, section 2): byte order, 42, offset of the directory, then entries of
// 12 bytes: tag, type, count, value. Every read is checked against the end of the block.
#include "stoker/codecs/exif.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "stoker/codecs/byte_order.h"

namespace stoker {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;

class TiffReader {
  public:
    TiffReader(std::span<const std::byte> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

    bool holds(std::size_t offset, std::size_t size) const {
        return offset <= bytes_.size() && size <= bytes_.size() - offset;
    }
    // The caller has checked `offset` and `size` with holds().
    std::uint32_t read(std::size_t offset, std::size_t size) const {
        return big_endian_ ? load_be(bytes_, offset, size) : load_le(bytes_, offset, size);
    }

  private:
    std::span<const std::byte> bytes_;
    bool big_endian_;
};

int orientation_in(const TiffReader& tiff) {
    if (!tiff.holds(0, 8) || tiff.read(2, 2) != 42) {
        return 1;
    }
    const std::size_t directory = tiff.read(4, 4);
    if (!tiff.holds(directory, 2)) {
        return 1;
    }
    const std::size_t entries = tiff.read(directory, 2);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t entry = directory + 2 + 12 * i;
        if (!tiff.holds(entry, 12)) {
            return 1;
        }
        if (tiff.read(entry, 2) != kOrientationTag) {
            continue;
        }
        const std::uint32_t type = tiff.read(entry + 2, 2);
        if ((type != kShort && type != kLong) || tiff.read(entry + 4, 4) != 1) {
            return 1;
        }
        const std::uint32_t value = tiff.read(entry + 8, type == kShort ? 2 : 4);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> block) noexcept {
    constexpr std::array<std::byte, 6> prefix = {std::byte{'E'}, std::byte{'x'}, std::byte{'i'},
                                                 std::byte{'f'}, std::byte{0},   std::byte{0}};
    if (block.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), block.begin())) {
        block = block.subspan(prefix.size());
    }
    if (block.size() < 2 || block[0] != block[1]) {
        return 1;
    }
    if (block[0] == std::byte{'I'} || block[0] == std::byte{'M'}) {
        return orientation_in(TiffReader(block, block[0] == std::byte{'M'}));
    }
    return 1;
}

}  // namespace stoker
