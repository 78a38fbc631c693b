// Groups of dct-ans: every instruction set reads what was written, as the reference does, and gives the reference's
// result for damaged groups. The tables of the specification are complete.
#include "stoker/codecs/dct/ans_group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "codecs/dct/ans_reference.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using Blocks = AnsReference::Blocks;

struct Group {
    std::vector<Blocks> blocks;
    std::vector<AnsPlane> planes;

    void add(std::size_t wide, std::size_t rows) {
        planes.push_back({.wide = wide, .rows = rows});
        blocks.emplace_back(kBlockSize * wide * rows);
    }
    Bytes write() {
        for (std::size_t p = 0; p < planes.size(); ++p) {
            planes[p].blocks = blocks[p].data();
        }
        return write_ans_group(planes);
    }
};

// Blocks with a share of values that are not 0, mostly small ones; some of the whole range.
Group random_group(Rng& rng, std::uint32_t widest) {
    Group group;
    const std::uint32_t planes = rng.chance(0.3f) ? 1 : 3;
    for (std::uint32_t p = 0; p < planes; ++p) {
        group.add(1 + rng.below(widest), 1 + rng.below(5));
    }
    const int large = rng.chance(0.3f) ? 32768 : 1 + static_cast<int>(rng.below(300));
    for (Blocks& plane : group.blocks) {
        std::uint32_t share = 0;
        for (std::size_t i = 0; i < plane.size(); ++i) {
            if (i % kBlockSize == 0) {
                share = rng.chance(0.1f) ? 0 : rng.chance(0.1f) ? 100 : rng.below(60);
            }
            if (rng.below(100) < share || i % kBlockSize == 0) {
                const int most = rng.chance(0.8f) ? std::min(large, 3) : large;
                const int value = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(most)));
                plane[i] = static_cast<std::int16_t>(rng.chance(0.5f) ? -value : std::min(value, 32767));
            }
        }
    }
    return group;
}

// The blocks by one instruction set, or nothing. The padding after `bytes` is random, because it may not matter.
std::optional<std::vector<Blocks>> read_on(const AnsKernels& ans, const SegmentKernels& segments, const Bytes& bytes,
                                           const Group& group, Rng& rng) {
    std::vector<std::byte> memory = bytes;
    for (std::size_t i = 0; i < kSegmentPadding; ++i) {
        memory.push_back(static_cast<std::byte>(rng.next()));
    }
    static AnsGroupReader plain(kPlainAnsKernels);
    static AnsGroupReader best;
    AnsGroupReader& reader = &ans == &ans_kernels().front() ? plain : best;
    try {
        reader.read(std::span(memory).first(bytes.size()), group.planes);
    } catch (const DataError&) {
        return std::nullopt;
    }
    std::vector<Blocks> out;
    Buffer row;
    for (std::size_t p = 0; p < group.planes.size(); ++p) {
        const auto [wide, rows, unused] = group.planes[p];
        out.emplace_back();
        for (std::size_t y = 0; y < rows; ++y) {
            const std::size_t first = rng.below(static_cast<std::uint32_t>(wide));  // in two parts
            row.resize(2 * kBlockSize * wide);
            auto* const to = reinterpret_cast<std::int16_t*>(row.data());
            if (first > 0) {
                reader.blocks(p, y, 0, first, segments, to);
                out.back().insert(out.back().end(), to, to + kBlockSize * first);
            }
            reader.blocks(p, y, first, wide - first, segments, to);
            out.back().insert(out.back().end(), to, to + kBlockSize * (wide - first));
        }
    }
    return out;
}

TEST(AnsModel, EveryTableIsComplete) {
    const AnsModel& model = ans_model();
    for (std::size_t table = 0; table <= kAnsSure; ++table) {
        const auto& frequencies = model.frequency[table];
        EXPECT_EQ(std::accumulate(std::begin(frequencies), std::end(frequencies), 0U), kAnsSlots) << table;
    }
    const auto all_coded = [](const auto& tables, std::size_t symbols) {
        for (const auto& frequencies : tables) {
            EXPECT_TRUE(std::all_of(frequencies, frequencies + symbols, [](int f) { return f > 0; }));
        }
    };
    all_coded(kAnsSpecification.count_frequencies, 64);
    all_coded(kAnsSpecification.scale_frequencies, kAnsScales);
    all_coded(kAnsSpecification.dc_frequencies, 32);
    all_coded(kAnsSpecification.mask_frequencies, 16);
    all_coded(kAnsSpecification.value_frequencies, 31);
}

TEST(AnsModel, EveryMagnitudeHasItsSymbol) {
    for (std::uint32_t magnitude = 1; magnitude <= 32768; ++magnitude) {
        const AnsMagnitude coded = ans_magnitude(magnitude);
        ASSERT_LT(coded.symbol, 31);
        ASSERT_EQ(coded.bits, kAnsMagnitudes.bits[coded.symbol]);
        ASSERT_LT(coded.rest, 1U << coded.bits);
        ASSERT_EQ(kAnsMagnitudes.base[coded.symbol] + coded.rest, magnitude);
    }
}

TEST(AnsKernels, TheLastSetIsTheOneInUse) {
    EXPECT_STREQ(ans_kernels().front().name, "plain");
    EXPECT_EQ(&best_ans_kernels(), &ans_kernels().back());
}

TEST(AnsGroup, IsReadAsWritten) {
    Rng rng({.seed = 21});
    for (int i = 0; i < 300 / kSlow; ++i) {
        Group group = random_group(rng, i % 4 == 0 ? 140 : 20);
        const Bytes bytes = group.write();
        const auto reference = AnsReference::read(bytes, group.planes);
        ASSERT_TRUE(reference.has_value()) << i;
        ASSERT_EQ(*reference, group.blocks) << i;
        for (std::size_t s = 0; s < ans_kernels().size(); ++s) {
            const auto got = read_on(ans_kernels()[s], segment_kernels()[s], bytes, group, rng);
            ASSERT_TRUE(got.has_value()) << ans_kernels()[s].name << " " << i;
            ASSERT_EQ(*got, group.blocks) << ans_kernels()[s].name << " " << i;
        }
    }
}

// A group without values: no words; the states hold the sign of the only DC and are otherwise as small as can be.
TEST(AnsGroup, HasTheBytesOfTheFormat) {
    Group group;
    group.add(1, 1);
    const Bytes bytes = group.write();
    ASSERT_GE(bytes.size(), 132u);
    const auto words = std::to_integer<std::size_t>(bytes[0]);
    EXPECT_EQ(bytes.size(), 132 + 2 * words);
    std::size_t changed = 0;  // lanes that coded a symbol: only lane 0, of the count, the scale and the DC
    for (std::size_t lane = 0; lane < kAnsLanes; ++lane) {
        const Bytes state(bytes.begin() + static_cast<std::ptrdiff_t>(4 + 4 * lane),
                          bytes.begin() + static_cast<std::ptrdiff_t>(8 + 4 * lane));
        changed += state != bytes_of({0, 0, 1, 0}) ? 1U : 0U;
    }
    EXPECT_EQ(changed, 1u);
}

TEST(AnsGroup, DamageIsTheSameOnEverySet) {
    Rng rng({.seed = 22});
    int good = 0;
    int refused = 0;
    for (int i = 0; i < 4000 / kSlow; ++i) {
        Group group = random_group(rng, 12);
        Bytes bytes = group.write();
        if (i % 2 == 0) {
            bytes = mutated(bytes, rng);
        } else if (i % 4 == 1 && bytes.size() > 140) {  // signs and bits, which only a wrong size makes invalid
            bytes[bytes.size() - 1 - rng.below(6)] = static_cast<std::byte>(rng.next());
        } else {
            group.planes[0].rows += 1;  // a group of other blocks
            group.blocks[0].resize(kBlockSize * group.planes[0].wide * group.planes[0].rows);
        }
        const auto reference = AnsReference::read(bytes, group.planes);
        ++(reference.has_value() ? good : refused);
        for (std::size_t s = 0; s < ans_kernels().size(); ++s) {
            const auto got = read_on(ans_kernels()[s], segment_kernels()[s], bytes, group, rng);
            ASSERT_EQ(got.has_value(), reference.has_value()) << ans_kernels()[s].name << " " << i;
            ASSERT_TRUE(!got.has_value() || *got == *reference) << ans_kernels()[s].name << " " << i;
        }
    }
    EXPECT_GT(good, 100 / kSlow);
    EXPECT_GT(refused, 1000 / kSlow);
}

TEST(AnsGroup, EveryTruncationIsRefused) {
    Rng rng({.seed = 23});
    Group group = random_group(rng, 8);
    const Bytes bytes = group.write();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        for (std::size_t s = 0; s < ans_kernels().size(); ++s) {
            ASSERT_FALSE(read_on(ans_kernels()[s], segment_kernels()[s], cut, group, rng).has_value()) << size;
        }
    }
}

}  // namespace
}  // namespace stoker
