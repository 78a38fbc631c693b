// Baseline Huffman decoding (ITU-T T.81, annex F) faster than libjpeg's, for the pixel stage: one table
// look-up gives a code's run, value and length together, and stuffed bytes are taken out beforehand. It reads
// sound files only; whatever looks odd is left to libjpeg. Internal to codecs/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/jpeg/frame.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {

// Thrown where the file is not what it should be.
struct HuffmanDamage {};

// One Huffman table prepared for decoding, kept while the files' tables stay the same.
class HuffmanTable {
  public:
    static constexpr int kBits = 11;  // looked at together

    // A code of AC coefficients with its value bits: the value, the zeros before it, the bits of both together.
    // One number, because it is loaded at once and its lowest bits are all that the next look-up waits for.
    class Entry {
      public:
        Entry() = default;
        Entry(int value, unsigned run, unsigned length)
            : packed_(static_cast<std::uint32_t>(value) << 16 | run << 8 | length) {}
        std::int16_t value() const { return static_cast<std::int16_t>(packed_ >> 16); }
        unsigned run() const { return packed_ >> 8 & 0xff; }
        unsigned length() const { return packed_ & 0x3f; }
        bool empty() const { return packed_ == 0; }

      private:
        std::uint32_t packed_ = 0;
    };

    // False for a table that no code can be made of, or with a symbol above `most`.
    bool build(const JHUFF_TBL& table, int most);

    // Of the code that `bits` begin with; empty where code and value do not fit into kBits.
    Entry entry(std::uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }
    // The same for any code. Throws HuffmanDamage where there is none.
    Entry long_entry(std::uint64_t bits) const;

    // The symbol that `bits` begin with, by its length; length 0: none.
    struct Symbol {
        std::uint8_t symbol;
        std::uint8_t length;
    };
    Symbol symbol(std::uint64_t bits) const;

  private:
    void add(std::uint32_t code, unsigned length, std::uint8_t symbol);

    std::array<Entry, std::size_t{1} << kBits> entries_;
    std::array<Symbol, std::size_t{1} << kBits> symbols_;  // of the codes of up to kBits
    std::array<std::uint32_t, 17> limits_;                 // by length: the first 16-bit number above its codes
    std::array<std::uint32_t, 17> offsets_;                // by length: from a code to its symbol's place
    JHUFF_TBL made_of_{};
    bool made_ = false;
};

class HuffmanReader final : public BlockRows {
  public:
    // The scan behind an opened JPEG's header, where it is baseline and whole; false where it is not.
    bool open(const jpeg_decompress_struct& codec, const Frame& frame, std::span<const std::byte> scan);

    // Rows are decoded as they are asked for; those skipped over are passed by. Throws HuffmanDamage.
    const std::int16_t* blocks(int component, int block_row, int first, int count) override;

    // Whether the file goes on to its end as it should. Throws HuffmanDamage.
    void finish();

  private:
    struct Bits {
        std::uint64_t held = 0;  // the next bits, from the top
        unsigned count = 0;
        const std::uint8_t* next = nullptr;

        void refill();
        void drop(unsigned bits) {
            held <<= bits;
            count -= bits;
        }
    };

    bool collect(std::span<const std::byte> scan);
    void start_segment();
    void next_row(bool keep);
    void check_end(const Bits& bits) const;
    static int read_block(Bits& bits, const HuffmanTable& dc, const HuffmanTable& ac, std::int16_t* out);

    const Frame* frame_ = nullptr;
    HuffmanTable dc_[2];
    HuffmanTable ac_[2];
    int dc_of_[3] = {};
    int ac_of_[3] = {};
    std::vector<std::uint8_t> data_;  // the scan without stuffing, restart segments one after the other
    std::vector<std::size_t> ends_;   // of each restart segment in data_
    std::size_t segment_ = 0;
    bool ended_ = false;     // by an end-of-image marker
    unsigned interval_ = 0;  // MCUs in a restart segment; 0: all
    unsigned left_ = 0;      // MCUs of this segment
    Bits bits_;
    int row_ = -1;  // MCU row in blocks_
    int last_dc_[3] = {};
    Buffer blocks_;               // of one MCU row: by component, block row, column; (8, 8) each
    std::size_t starts_[3] = {};  // of each component there
};

}  // namespace stoker
