// Baseline Huffman decoding (ITU-T T.81, annex F), faster than libjpeg's: one table look-up returns a code's run, value
// and length together, and stuffed bytes are removed first. It reads only valid files; JpegDecoder gives all others to
// libjpeg. Internal to codecs/.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {

// Thrown for invalid data.
struct HuffmanError {};

// A Huffman table prepared for decoding. Kept from file to file as long as the table is the same.
class HuffmanTable {
  public:
    static constexpr int kBits = 11;  // bits per table look-up

    // An AC code and its value bits: the value, the number of zeros before it, and the length of code and value in
    // bits. Packed into one integer: one load reads it, and the next look-up depends only on its lowest bits.
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

    // Returns false for an invalid table, or one with a symbol above `largest`.
    bool build(const JHUFF_TBL& table, int largest);

    // The entry for the code at the top of `bits`; empty if code and value exceed kBits.
    Entry entry(std::uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }
    // The same for codes of any length. Throws HuffmanError for an unknown code.
    Entry long_entry(std::uint64_t bits) const;

    // The symbol for the code at the top of `bits`; length 0 for an unknown code.
    struct Symbol {
        std::uint8_t symbol;
        std::uint8_t length;
    };
    Symbol symbol(std::uint64_t bits) const;

  private:
    void add(std::uint32_t code, unsigned length, std::uint8_t symbol);

    std::array<Entry, std::size_t{1} << kBits> entries_;
    std::array<Symbol, std::size_t{1} << kBits> symbols_;  // of codes up to kBits long
    std::array<std::uint32_t, 17> limits_;                 // by length: the first 16-bit value above its codes
    std::array<std::uint32_t, 17> offsets_;                // by length: a code plus this is the index of its symbol
    JHUFF_TBL table_{};                                    // the table that this was built from
    bool built_ = false;
};

class HuffmanReader final : public BlockRows {
  public:
    // `scan`: the bytes after the header of an opened JPEG. Returns false unless it is one complete baseline scan.
    bool open(const jpeg_decompress_struct& codec, const JpegFrame& frame, std::span<const std::byte> scan);

    // Decodes MCU rows on demand; skipped rows are decoded but not stored. Throws HuffmanError.
    const std::int16_t* blocks(int component, int block_row, int first, int count) override;

    // Checks that the scan ends here, with an end-of-image marker. Throws HuffmanError.
    void finish();

    // The time that decoding took since the last call.
    std::chrono::nanoseconds take_time() { return std::exchange(time_, {}); }

  private:
    struct Bits {
        std::uint64_t held = 0;  // the next bits, most significant first
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

    const JpegFrame* frame_ = nullptr;
    HuffmanTable dc_[2];
    HuffmanTable ac_[2];
    int dc_of_[3] = {};
    int ac_of_[3] = {};
    std::vector<std::uint8_t> data_;  // the scan without stuffed bytes and restart markers
    std::vector<std::size_t> ends_;   // end of each restart segment in data_
    std::size_t segment_ = 0;
    bool ended_ = false;     // the scan ends with an end-of-image marker
    unsigned interval_ = 0;  // MCUs per restart segment; 0: no restarts
    unsigned left_ = 0;      // MCUs left in this segment
    Bits bits_;
    int row_ = -1;  // the MCU row that is in blocks_
    int last_dc_[3] = {};
    std::chrono::nanoseconds time_{};
    Buffer blocks_;               // one MCU row: by component, block row, column; (8, 8) each
    std::size_t starts_[3] = {};  // each component's first block in blocks_
};

}  // namespace stoker
