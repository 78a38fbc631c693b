// The inner loops of dct-ans, one set for each instruction set. A *list* is a run of symbols whose tables are known
// before; its symbol i is coded in lane i % kAnsLanes. All sets return the same results, also for damaged data.
// Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/codecs/dct/ans_model.h"

namespace stoker {

struct AnsState {
    alignas(64) std::uint32_t lane[kAnsLanes];
    const std::uint8_t* next = nullptr;  // 16-bit words
    const std::uint8_t* end = nullptr;   // 64 readable bytes follow
};

inline constexpr std::size_t kAnsPadding = 64;  // elements that kernels read and write beyond lists and arrays

struct AnsKernels {
    const char* name;  // plain, avx2

    // Decodes a list; returns false if the words did not suffice. Overwrites the padding of both arrays.
    bool (*decode)(const std::uint32_t* slots, AnsState& state, std::uint8_t* tables, std::size_t count,
                   std::uint8_t* symbols);

    // For one nibble of the masks of `count` blocks, a multiple of 64: looks up the tables, AnsModel::mask, by the
    // lower six bits of `left`, the set bits that are not yet known. Appends those of the blocks that have a symbol to
    // `tables`, and returns their number. `choices` is for put_masks.
    std::size_t (*pick_masks)(const std::uint8_t* table_of, const std::uint8_t* left, std::size_t count,
                              std::uint8_t* choices, std::uint8_t* tables);
    // Then replaces the choices with nibbles and subtracts the set bits from `left`. `all`: the bits that the nibble
    // has. Returns the number of symbols used.
    std::size_t (*put_masks)(const std::uint8_t* symbols, std::uint8_t all, std::size_t count, std::uint8_t* left,
                             std::uint8_t* nibbles);
    // Joins nibbles (kAnsNibbles, stride) to `count` masks, a multiple of 64.
    void (*join_masks)(const std::uint8_t* nibbles, std::size_t stride, std::size_t count, std::uint64_t* masks);

    // Appends the tables of each block's values; returns their number. `table_of`: AnsModel::value of the component's
    // kind; the classes and scales are those of each block.
    std::size_t (*value_tables)(const std::uint8_t (*table_of)[9][64], const std::uint8_t* scales,
                                const std::uint8_t* classes, const std::uint64_t* masks, std::size_t count,
                                std::uint8_t* tables);
    // Turns symbols below kAnsOwn into values: negative where the bit is set, from bit `first` of `signs` on. Returns
    // the number of other symbols, and their places.
    std::size_t (*sign_values)(const std::uint8_t* symbols, std::size_t count, const std::uint8_t* signs,
                               std::size_t first, std::int8_t* values, std::uint32_t* others);
};

extern const AnsKernels kPlainAnsKernels;
extern const AnsKernels kAvx2AnsKernels;

// All sets that this processor supports, slowest first. best_ans_kernels() is the last.
std::span<const AnsKernels> ans_kernels();
const AnsKernels& best_ans_kernels();

}  // namespace stoker
