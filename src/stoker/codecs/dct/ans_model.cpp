// Spreads the specification's tables by classes to look-ups by counts and sums.
#include "stoker/codecs/dct/ans_model.h"

#include <algorithm>
#include <span>

namespace stoker {
namespace {

// The number of limits that a value has reached.
std::uint8_t class_of(int value, std::span<const std::uint8_t> limits) {
    return static_cast<std::uint8_t>(std::ranges::count_if(limits, [value](int limit) { return value >= limit; }));
}

// FORMAT.md has the same lists.
constexpr std::uint8_t kSumLimits[] = {1,  5,  9,  13, 17, 21,  25,  29,  33,  41,
                                       49, 57, 69, 81, 97, 113, 133, 157, 181, 209};
constexpr std::uint8_t kCountLimits[] = {1, 2, 4, 7, 11, 17, 26};
constexpr std::uint8_t kValueCountLimits[] = {2, 4, 7, 11, 16, 22, 30, 40};
constexpr std::uint8_t kLeftLimits[] = {2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 35, 44};
constexpr std::uint8_t kNumberLimits[] = {2, 3, 4, 6, 10, 15, 21, 28, 36, 45};

constexpr int kFirstScale = kCountTables;
constexpr int kFirstDc = kFirstScale + kScaleTables;
constexpr int kFirstMask = kFirstDc + kDcTables;
constexpr int kFirstValue = kFirstMask + kMaskTables;

}  // namespace

AnsModel::AnsModel() {
    const AnsSpecification& from = kAnsSpecification;
    const auto number = [](int first, int table) { return static_cast<std::uint8_t>(first + table); };
    for (int i = 0; i < 64; ++i) {
        count_class[i] = class_of(i, kValueCountLimits);
    }
    for (int odd = 0; odd < 2; ++odd) {
        for (int sum = 0; sum < 64; ++sum) {
            for (int n = 0; n < 64; ++n) {
                const int sums = sum == kNoScales ? 16 : std::min((sum + 1) / 2, 15);
                scale[odd][sum][n] = number(kFirstScale, from.scale_table[sums][class_of(n, kCountLimits)][odd]);
            }
        }
    }
    for (int chroma = 0; chroma < 2; ++chroma) {
        for (int sum = 0; sum < 256; ++sum) {
            for (int odd = 0; odd < 2; ++odd) {
                const int sums = sum == kNoCounts ? 21 : class_of(sum, kSumLimits);
                count[chroma][odd][sum] = number(0, from.count_table[chroma][odd][sums]);
            }
        }
        for (int s = 0; s < kAnsScales; ++s) {
            for (int n = 0; n < 64; ++n) {
                dc[chroma][n][s] = number(kFirstDc, from.dc_table[chroma][class_of(n, kCountLimits)][std::min(s, 7)]);
            }
            for (int n = 0; n < 9; ++n) {
                for (int k = 1; k < 64; ++k) {  // of magnitudes whose mean is 1, each is
                    value[chroma][s][n][k - 1] =
                        s == 0 ? kAnsSure
                               : number(kFirstValue, from.value_table[chroma][s][n][class_of(k, kNumberLimits)]);
                }
            }
        }
        for (int g = 0; g < kAnsNibbles; ++g) {
            mask[chroma][g][0] = kNoSymbol;
            for (int left = 1; left < 64; ++left) {
                mask[chroma][g][left] =
                    left >= 63 - 4 * g ? kAllSet
                                       : number(kFirstMask, from.mask_table[chroma][g][class_of(left, kLeftLimits)]);
            }
        }
    }
    slots.resize(std::size_t{kAnsTables + 1} * kAnsSlots);
    int table = 0;
    const auto add = [&](std::span<const std::uint16_t> frequencies) {
        std::uint32_t slot = 0;
        for (std::size_t s = 0; s < frequencies.size(); ++s) {
            frequency[table][s] = frequencies[s];
            start[table][s] = static_cast<std::uint16_t>(slot);
            for (std::uint32_t i = 0; i < frequencies[s]; ++i, ++slot) {
                slots[static_cast<std::size_t>(table) * kAnsSlots + slot] =
                    static_cast<std::uint32_t>(s) << 24 | static_cast<std::uint32_t>(frequencies[s]) << 12 | i;
            }
        }
        ++table;
    };
    std::ranges::for_each(from.count_frequencies, add);
    std::ranges::for_each(from.scale_frequencies, add);
    std::ranges::for_each(from.dc_frequencies, add);
    std::ranges::for_each(from.mask_frequencies, add);
    std::ranges::for_each(from.value_frequencies, add);
    constexpr std::uint16_t kAll[] = {kAnsSlots};
    add(kAll);
}

const AnsModel& ans_model() {
    static const AnsModel model;
    return model;
}

}  // namespace stoker
