// The tag is in the first TIFF directory (TIFF 6.0, section 2): byte order, 42, offset of the directory, then entries
// of 12 bytes (tag, type, count, value). All eight orientations are one loop over the stored pixels; they differ in
// the place of the first upright pixel and in the distances to its right and lower neighbours.
#include "stoker/codecs/orientation.h"

#include <cstdint>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
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
    // After a check with holds().
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

struct Traversal {
    bool transposed;   // upright rows are stored columns
    bool from_right;   // upright pixel (0, 0) is in the last stored column
    bool from_bottom;  // ... in the last stored row
};

Traversal traversal_of(int orientation) {
    if (orientation < 1 || orientation > 8) {
        throw InvalidArgument(
            {.where = "orientation", .expected = "an EXIF orientation of 1 to 8", .got = fmt::to_string(orientation)});
    }
    constexpr Traversal kTraversals[] = {{false, false, false}, {false, true, false}, {false, true, true},
                                         {false, false, true},  {true, false, false}, {true, false, true},
                                         {true, true, true},    {true, true, false}};
    return kTraversals[orientation - 1];
}

// Mirrors the interval [first, first + length) on a side of `side` pixels, if `from_end`.
int mirrored(bool from_end, int first, int length, int side) {
    return from_end ? side - length - first : first;
}

}  // namespace

int exif_orientation(std::span<const std::byte> block) noexcept {
    constexpr std::size_t kPrefix = 6;
    if (block.size() >= kPrefix && std::memcmp(block.data(), "Exif\0", kPrefix) == 0) {
        block = block.subspan(kPrefix);
    }
    if (block.size() < 2 || block[0] != block[1]) {
        return 1;
    }
    if (block[0] == std::byte{'I'} || block[0] == std::byte{'M'}) {
        return orientation_in(TiffReader(block, block[0] == std::byte{'M'}));
    }
    return 1;
}

Box stored_box(const Box& upright, int orientation, int height, int width) {
    const Traversal order = traversal_of(orientation);
    Box box = upright;
    if (order.transposed) {
        box = {.top = upright.left, .left = upright.top, .height = upright.width, .width = upright.height};
    }
    box.top = mirrored(order.from_bottom, box.top, box.height, height);
    box.left = mirrored(order.from_right, box.left, box.width, width);
    return box;
}

void apply_orientation(ConstImageView image, int orientation, RowSink& sink) {
    const Traversal order = traversal_of(orientation);
    const int height = order.transposed ? image.width : image.height;
    const int width = order.transposed ? image.height : image.width;
    const std::ptrdiff_t column = order.from_right ? -image.channels : image.channels;
    const std::ptrdiff_t line = order.from_bottom ? -image.stride : image.stride;
    const std::ptrdiff_t right = order.transposed ? line : column;
    const std::ptrdiff_t down = order.transposed ? column : line;
    const std::uint8_t* first = image.row(order.from_bottom ? image.height - 1 : 0) +
                                (order.from_right ? std::ptrdiff_t{image.width - 1} * image.channels : 0);

    sink.start(height, width, image.channels);
    for (int y = 0; y < height; ++y) {
        const std::uint8_t* from = first + y * down;
        std::uint8_t* to = sink.row(y);
        for (int x = 0; x < width; ++x, from += right) {
            for (int c = 0; c < image.channels; ++c) {
                *to++ = from[c];
            }
        }
    }
}

}  // namespace stoker
