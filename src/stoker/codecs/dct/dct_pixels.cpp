// One block and one pixel at a time.
#include "stoker/codecs/dct/dct_pixels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "stoker/codecs/dct/jpeg_samples.h"
#include "stoker/codecs/jpeg/block_kernels.h"

namespace stoker {
namespace {

// Reads the blocks of one row from the first to the last.
class RowReader {
  public:
    RowReader(const std::byte* crop, const DctCropRow& row)
        : dc_(crop + row.at),
          lengths_(dc_ + 2 * row.blocks),
          masks_(lengths_ + row.blocks),
          values_(dc_ + row.values),
          escapes_(dc_ + row.escapes),
          wide_(dc_ + row.wide),
          value_(row.odd) {}

    // (8, 8), natural order
    void next(std::int16_t* block) {
        std::fill_n(block, kBlockSize, std::int16_t{0});
        block[0] = take<std::int16_t>(dc_);
        std::uint64_t mask = 0;
        const auto length = take<std::uint8_t>(lengths_);
        for (int i = 0; i < length; ++i) {
            mask |= std::uint64_t{take<std::uint8_t>(masks_)} << (8 * i);
        }
        for (; mask != 0; mask &= mask - 1) {
            const std::int16_t value = next_value();
            const auto number = static_cast<std::size_t>(std::countr_zero(mask)) + 1;
            if (number < kBlockSize) {  // the last bit is set only in damaged files
                block[kZigzag[number]] = value;
            }
        }
    }

  private:
    template <typename Number>
    static Number take(const std::byte*& from) {
        Number number;
        std::memcpy(&number, from, sizeof number);
        from += sizeof number;
        return number;
    }

    std::int16_t next_value() {
        const int nibble = std::to_integer<int>(values_[value_ / 2]) >> (4 * (value_ % 2)) & 15;
        ++value_;
        if (nibble != 0) {
            return static_cast<std::int16_t>(nibble < 8 ? nibble : nibble - 16);
        }
        const auto escape = take<std::int8_t>(escapes_);
        return escape == -128 ? take<std::int16_t>(wide_) : escape;
    }

    const std::byte* dc_;
    const std::byte* lengths_;
    const std::byte* masks_;
    const std::byte* values_;
    const std::byte* escapes_;
    const std::byte* wide_;
    std::size_t value_;
};

void write_samples(const std::byte* crop, const DctCrop& head, const DctCropRow& row, std::uint8_t* samples) {
    const DctCropPlane& plane = head.planes[row.component];
    alignas(64) std::int16_t blocks[4 * kBlockSize] = {};  // the kernel reads and writes four
    std::uint8_t out[kBlockSide][4 * kBlockSide];
    RowReader reader(crop, row);
    for (int i = 0; i < row.blocks; ++i) {
        reader.next(blocks);
        kPlainBlockKernels.inverse_dct(blocks, plane.quant, 1, out[0], sizeof out[0]);
        for (int y = 0; y < kBlockSide; ++y) {
            std::memcpy(samples + row.sample + y * plane.stride + kBlockSide * i, out[y], kBlockSide);
        }
    }
}

// The plane's value at a pixel of the image.
int upsampled(const DctCropPlane& plane, const std::uint8_t* samples, int y, int x) {
    const int row = y / plane.scale_v;
    const int column = x / plane.scale_h;
    const auto at = [&](int sample_row, int sample_column) {
        const int inside_row = std::clamp(sample_row, 0, plane.height - 1);
        const int inside_column = std::clamp(sample_column, 0, plane.width - 1);
        return int{samples[plane.at + static_cast<std::size_t>((inside_row - plane.top) * plane.stride + inside_column -
                                                               plane.left)]};
    };
    const int far_row = y % 2 == 0 ? row - 1 : row + 1;
    const int far_column = x % 2 == 0 ? column - 1 : column + 1;
    if (plane.smooth_h != 0 && plane.smooth_v != 0) {
        const int near = 3 * at(row, column) + at(far_row, column);
        const int far = 3 * at(row, far_column) + at(far_row, far_column);
        return (3 * near + far + (x % 2 == 0 ? 8 : 7)) >> 4;
    }
    if (plane.smooth_h != 0) {
        return (3 * at(row, column) + at(row, far_column) + (x % 2 == 0 ? 1 : 2)) >> 2;
    }
    if (plane.smooth_v != 0) {
        return (3 * at(row, column) + at(far_row, column) + (y % 2 == 0 ? 1 : 2)) >> 2;
    }
    return at(row, column);
}

void write_pixel(const DctCrop& head, const std::uint8_t* samples, int y, int x, std::uint8_t* rgb) {
    std::uint8_t values[3] = {};
    for (std::uint32_t c = 0; c < head.components; ++c) {
        values[c] = static_cast<std::uint8_t>(upsampled(head.planes[c], samples, y, x));
    }
    switch (static_cast<FrameColor>(head.color)) {
        case FrameColor::grey:
            kPlainBlockKernels.grey_to_rgb(values, 1, rgb);
            break;
        case FrameColor::ycc:
            kPlainBlockKernels.ycc_to_rgb(&values[0], &values[1], &values[2], 1, rgb);
            break;
        case FrameColor::rgb:
            std::copy_n(values, 3, rgb);
            break;
    }
}

}  // namespace

void dct_pixels(const DctCropBatch& batch) {
    for (int i = 0; i < batch.n; ++i) {
        DctCropPlace& place = batch.places[i];
        if (place.crop == 0) {
            continue;
        }
        const std::byte* const crop = batch.memory + place.crop;
        const DctCrop& head = *reinterpret_cast<const DctCrop*>(crop);
        const auto* const rows = reinterpret_cast<const DctCropRow*>(crop + sizeof head);
        auto* const samples = reinterpret_cast<std::uint8_t*>(batch.memory + place.samples);
        for (std::uint32_t r = 0; r < head.rows; ++r) {
            write_samples(crop, head, rows[r], samples);
        }
        if (head.pieces > 0 && !jpeg_samples(crop, samples)) {
            place.damaged = 1;
        }
        auto* rgb = reinterpret_cast<std::uint8_t*>(batch.memory + place.pixels);
        for (int y = head.box.top; y < head.box.top + head.box.height; ++y) {
            for (int x = head.box.left; x < head.box.left + head.box.width; ++x, rgb += 3) {
                write_pixel(head, samples, y, x, rgb);
            }
        }
    }
}

}  // namespace stoker
