// The groups of dct-ans (FORMAT.md): all blocks of several MCU rows, as lists of symbols that 32 interleaved rANS
// states code, then signs, then the bits of large numbers. Internal to codecs/.
//   uint32 number of words; 32 uint32 states; uint16 words; signs from the 513th on; bits
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/dct/ans_kernels.h"
#include "stoker/codecs/dct/dct_segment.h"

namespace stoker {

// The part of a component that a group holds: (rows, wide) blocks.
struct AnsPlane {
    std::size_t wide = 0;
    std::size_t rows = 0;
    const std::int16_t* blocks = nullptr;  // of a writer: (rows, wide, 8, 8), natural order
};

// At most three planes; all but the first are chroma to the model.
std::vector<std::byte> write_ans_group(std::span<const AnsPlane> planes);

// Decodes one group at a time. Reuses its memory.
class AnsGroupReader {
  public:
    explicit AnsGroupReader(const AnsKernels& kernels = best_ans_kernels()) : kernels_(&kernels) {}

    // Throws DataError. At least kSegmentPadding readable bytes must follow the group.
    void read(std::span<const std::byte> group, std::span<const AnsPlane> planes);

    // Writes blocks first ... first + count - 1 of a row of a plane to `out` (count, 8, 8), aligned to 64 bytes.
    void blocks(std::size_t plane, std::size_t row, std::size_t first, std::size_t count, const SegmentKernels& kernels,
                std::int16_t* out);

  private:
    // Blocks are in the order of planes, and each plane begins at a multiple of kAnsPadding.
    struct Plane {
        std::size_t wide = 0;
        std::size_t rows = 0;
        std::size_t at = 0;
        // The last row, as its columns of even and of odd index, from element kAnsPadding on.
        std::vector<std::uint8_t> even;
        std::vector<std::uint8_t> odd;

        std::size_t count() const { return wide * rows; }
        std::size_t evens() const { return (wide + 1) / 2; }
        std::size_t odds() const { return wide / 2; }
    };
    struct Wide {
        std::uint32_t place = 0;
        std::int16_t value = 0;
    };

    // Reads bits, the lowest of a byte first. Beyond the end it reads the padding.
    class BitReader {
      public:
        BitReader() = default;
        BitReader(const std::uint8_t* begin, const std::uint8_t* end)
            : bytes_(begin), end_(static_cast<std::size_t>(end - begin)) {}
        std::uint32_t take(int bits) {  // at most 14
            static_assert(std::endian::native == std::endian::little);
            std::uint32_t word = 0;
            std::memcpy(&word, bytes_ + std::min(at_ / 8, end_), sizeof word);
            word = word >> (at_ % 8) & ((1U << bits) - 1);
            at_ += static_cast<std::size_t>(bits);
            return word;
        }
        bool beyond_end() const { return at_ > 8 * end_; }

      private:
        const std::uint8_t* bytes_ = nullptr;
        std::size_t end_ = 0;
        std::size_t at_ = 0;
    };

    void layout(std::span<const AnsPlane> planes);
    void open(std::span<const std::byte> group);
    void decode(std::size_t count);
    void read_blocks(bool scales);
    void read_half(bool scales, bool odd, std::size_t row);
    void read_dc();
    void read_masks();
    void read_values();
    void read_signs(std::span<const std::byte> group);
    void read_steps(const std::uint8_t* coded, std::size_t count);
    void restore_dc();
    void restore_values();

    const AnsKernels* kernels_;
    const AnsModel* model_ = &ans_model();
    AnsState state_;
    std::array<Plane, 3> planes_;
    std::size_t used_planes_ = 0;
    std::size_t blocks_ = 0;  // with the padding of each plane
    std::size_t values_ = 0;
    std::size_t room_ = 0;               // elements of each array that has one for each block, with padding
    std::vector<std::uint8_t> tables_;   // of the list that is decoded
    std::vector<std::uint8_t> symbols_;  // its symbols
    std::vector<std::uint8_t> dc_symbols_;
    std::vector<std::uint8_t> nibbles_;  // (kAnsNibbles, blocks)
    std::vector<std::uint8_t> left_;
    std::vector<std::uint8_t> classes_;
    // For each block: the number of its values, its scale, mask, DC, and the index of its first value.
    std::vector<std::uint8_t> counts_;
    std::vector<std::uint8_t> scales_;
    std::vector<std::uint64_t> masks_;
    std::vector<std::int16_t> dc_;
    std::vector<std::uint32_t> starts_;
    std::vector<std::int8_t> signed_;  // the values; -128: in wide_
    std::vector<Wide> wide_;           // by place
    std::vector<std::uint8_t> signs_;
    std::size_t sign_ = 0;  // the next
    std::vector<int> steps_;
    BitReader bits_;
    std::vector<std::uint8_t> lengths_;  // 8 for each block of a row, and the starts: for `expand`
    std::vector<std::uint32_t> row_starts_;
};

}  // namespace stoker
