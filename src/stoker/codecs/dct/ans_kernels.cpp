// The kernels in plain C++, for processors without vector sets; the tests compare the vector sets with them.
#include "stoker/codecs/dct/ans_kernels.h"

#include <bit>
#include <vector>

#include "stoker/base/cpu_features.h"

namespace stoker {
namespace {

bool decode(const std::uint32_t* slots, AnsState& state, std::uint8_t* tables, std::size_t count,
            std::uint8_t* symbols) {
    const std::uint8_t* next = state.next;
    for (std::size_t i = 0; i < count; ++i) {
        if (i % kAnsLanes == 0 && next > state.end) {  // the padding suffices for the words of all lanes
            return false;
        }
        std::uint32_t x = state.lane[i % kAnsLanes];
        const std::uint32_t slot = slots[tables[i] * kAnsSlots + x % kAnsSlots];
        symbols[i] = static_cast<std::uint8_t>(slot >> 24);
        x = (slot >> 12 & 0xfff) * (x >> kAnsBits) + (slot & 0xfff);
        if (x < kAnsLow) {
            x = x << 16 | static_cast<std::uint32_t>(next[0] | next[1] << 8);
            next += 2;
        }
        state.lane[i % kAnsLanes] = x;
    }
    state.next = next;
    return next <= state.end;
}

std::size_t pick_masks(const std::uint8_t* table_of, const std::uint8_t* left, std::size_t count, std::uint8_t* choices,
                       std::uint8_t* tables) {
    std::size_t picked = 0;
    for (std::size_t i = 0; i < count; ++i) {
        choices[i] = table_of[left[i] % 64];
        tables[picked] = choices[i];
        picked += choices[i] < AnsModel::kAllSet ? 1U : 0U;
    }
    return picked;
}

std::size_t put_masks(const std::uint8_t* symbols, std::uint8_t all, std::size_t count, std::uint8_t* left,
                      std::uint8_t* nibbles) {
    const std::uint8_t* symbol = symbols;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint8_t bits = 0;
        if (nibbles[i] == AnsModel::kAllSet) {
            bits = all;
        } else if (nibbles[i] != AnsModel::kNoSymbol) {
            bits = *symbol++ & all;
        }
        nibbles[i] = bits;
        left[i] = static_cast<std::uint8_t>(left[i] - std::popcount(bits));
    }
    return static_cast<std::size_t>(symbol - symbols);
}

void join_masks(const std::uint8_t* nibbles, std::size_t stride, std::size_t count, std::uint64_t* masks) {
    for (std::size_t i = 0; i < count; ++i) {
        masks[i] = 0;
        for (std::size_t g = 0; g < kAnsNibbles; ++g) {
            masks[i] |= std::uint64_t{nibbles[g * stride + i]} << (4 * g);
        }
    }
}

std::size_t value_tables(const std::uint8_t (*table_of)[9][64], const std::uint8_t* scales, const std::uint8_t* classes,
                         const std::uint64_t* masks, std::size_t count, std::uint8_t* tables) {
    const std::uint8_t* const begin = tables;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::uint64_t mask = masks[i]; mask != 0; mask &= mask - 1) {
            *tables++ = table_of[scales[i]][classes[i]][std::countr_zero(mask)];
        }
    }
    return static_cast<std::size_t>(tables - begin);
}

std::size_t sign_values(const std::uint8_t* symbols, std::size_t count, const std::uint8_t* signs, std::size_t first,
                        std::int8_t* values, std::uint32_t* others) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bit = first + i;
        const bool negative = (signs[bit / 8] >> (bit % 8) & 1) != 0;
        const int magnitude = symbols[i] + 1;
        values[i] = static_cast<std::int8_t>(negative ? -magnitude : magnitude);
        if (symbols[i] >= kAnsOwn) {
            others[found++] = static_cast<std::uint32_t>(i);
        }
    }
    return found;
}

std::vector<AnsKernels> find_kernels() {
    std::vector<AnsKernels> sets = {kPlainAnsKernels};
#if defined(__x86_64__)
    if (cpu_features().avx2) {
        sets.push_back(kAvx2AnsKernels);
    }
#endif
    return sets;
}

}  // namespace

const AnsKernels kPlainAnsKernels = {"plain", decode, pick_masks, put_masks, join_masks, value_tables, sign_values};

std::span<const AnsKernels> ans_kernels() {
    static const std::vector<AnsKernels> sets = find_kernels();
    return sets;
}

const AnsKernels& best_ans_kernels() {
    return ans_kernels().back();
}

}  // namespace stoker
