// A Huffman table prepared for decoding (ITU-T T.81, annex F): one look-up returns a code's run, value and length, and
// often those of the code behind it. Internal to codecs/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {

// Thrown for invalid data.
struct HuffmanError {};

// Kept from file to file as long as the table is the same.
class HuffmanTable {
  public:
    static constexpr int kBits = 11;  // per look-up
    // The run of an end of block.
    static constexpr unsigned kEnd = 128;

    // A code and its value bits: the value, the number of zeros before it, and the length of code and value in bits.
    // Packed into one integer: one load reads it, and the next look-up depends only on its lowest bits. The functions
    // are inlined always, so that no kernel runs what was compiled for another instruction set.
    class Entry {
      public:
        Entry() = default;
        Entry(int value, unsigned run, unsigned length)
            : packed_(static_cast<std::uint32_t>(value) << 16 | run << 8 | length) {}
        [[gnu::always_inline]] std::int16_t value() const { return static_cast<std::int16_t>(packed_ >> 16); }
        [[gnu::always_inline]] unsigned run() const { return packed_ >> 8 & 0xff; }
        [[gnu::always_inline]] unsigned length() const { return packed_ & 0x3f; }
        [[gnu::always_inline]] bool empty() const { return packed_ == 0; }

      private:
        std::uint32_t packed_ = 0;
    };

    // The next code, and if both fit into kBits, the one behind it: its entry has the length of both, and the run from
    // the first code's place. Otherwise `last` is `first`. Without an entry for the first, `last` has the code's symbol
    // and length, if it is no longer than kBits.
    struct Pair {
        Entry first;
        Entry last;
    };

    // For differences of DC, or for AC. Returns false for an invalid table, or one with a symbol above `largest`.
    bool build(const JHUFF_TBL& table, bool dc, int largest);

    // The entries for the codes at the top of `bits`; empty if the first code and its value exceed kBits.
    [[gnu::always_inline]] Pair pair(std::uint64_t bits) const { return pairs_[bits >> (64 - kBits)]; }
    // The same for one code of any length. Throws HuffmanError for an unknown code.
    Entry long_entry(std::uint64_t bits) const;

    // The codes themselves, for a decoder that has its own look-up. A code of `length` bits is that of the first length
    // at which the next 16 bits are below limits()[length]; with offsets()[length] added, it is the place of its
    // symbol.
    const std::array<std::uint32_t, 17>& limits() const { return limits_; }
    const std::array<std::uint32_t, 17>& offsets() const { return offsets_; }
    const std::uint8_t* symbols() const { return table_.huffval; }  // (256)

  private:
    unsigned size_of(std::uint8_t symbol) const { return dc_ ? symbol : symbol & 15U; }  // bits of the value
    Entry entry_of(std::uint8_t symbol, unsigned length, unsigned value) const;
    void add(std::uint32_t code, unsigned length, std::uint8_t symbol);
    void add_second_codes();

    std::array<Pair, std::size_t{1} << kBits> pairs_;
    std::array<std::uint32_t, 17> limits_{};   // by length: the first 16-bit value above its codes
    std::array<std::uint32_t, 17> offsets_{};  // by length: a code plus this is the index of its symbol
    JHUFF_TBL table_{};                        // the table that this was built from
    bool built_ = false;
    bool dc_ = false;
};

}  // namespace stoker
