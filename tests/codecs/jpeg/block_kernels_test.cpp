// The block kernels: every set returns the bits of the plain set and writes only the documented bytes, and the plain
// inverse DCT matches the definition.
#include "stoker/codecs/jpeg/block_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "codecs/jpeg/jpeg_files.h"

namespace stoker {
namespace {

using namespace stoker::testing;

constexpr std::uint8_t kCanary = 0xA5;
using Samples = std::vector<std::uint8_t>;

Samples random_samples(std::size_t count, Rng& rng) {
    Samples samples(count);
    for (std::uint8_t& sample : samples) {
        sample = static_cast<std::uint8_t>(rng.chance(0.2f) ? 255 * rng.below(2) : rng.next());
    }
    return samples;
}

bool untouched(const Samples& samples, std::size_t from) {
    return std::all_of(samples.begin() + static_cast<std::ptrdiff_t>(std::min(from, samples.size())), samples.end(),
                       [](std::uint8_t sample) { return sample == kCanary; });
}

struct Coefficients {
    std::vector<std::int16_t> blocks;  // one extra value in front, so that the blocks are not aligned
    std::vector<std::uint16_t> quant;
    int count;

    const std::int16_t* data() const { return blocks.data() + 1; }
    const std::uint16_t* table() const { return quant.data() + 1; }
};

enum class Range { photo, coarse, all };

Coefficients random_coefficients(Range range, Rng& rng) {
    Coefficients result;
    result.count = 1 + static_cast<int>(rng.below(13));
    const auto rounded = static_cast<std::size_t>((result.count + 3) / 4 * 4);
    result.blocks.resize(1 + 64 * rounded);
    result.quant.resize(1 + 64);
    const float filled = rng.uniform();
    for (std::int16_t& value : result.blocks) {
        const int spread = range == Range::photo ? 40 : range == Range::coarse ? 2048 : 65536;
        const int random = static_cast<int>(rng.below(static_cast<std::uint32_t>(spread))) - spread / 2;
        value = static_cast<std::int16_t>(rng.chance(filled) ? random : 0);
    }
    for (std::uint16_t& step : result.quant) {
        step = static_cast<std::uint16_t>(range == Range::all ? rng.next() : 1 + rng.below(50));
    }
    return result;
}

TEST(BlockKernels, TheLastSetIsTheOneInUse) {
    ASSERT_FALSE(block_kernels().empty());
    EXPECT_STREQ(block_kernels().front().name, "plain");
    EXPECT_EQ(&best_block_kernels(), &block_kernels().back());
}

TEST(BlockKernels, InverseDctOnEverySet) {
    Rng rng({.seed = 1});
    for (const BlockKernels& set : block_kernels()) {
        for (int i = 0; i < 9000 / kSlow; ++i) {
            const Coefficients in = random_coefficients(static_cast<Range>(i % 3), rng);
            const auto width = static_cast<std::size_t>(8 * in.count);
            const auto room = static_cast<std::size_t>((in.count + 3) / 4 * 32);
            const std::size_t stride = room + rng.below(40);
            Samples expected(7 * stride + room, kCanary);
            Samples got(7 * stride + room, kCanary);
            const auto step = static_cast<std::ptrdiff_t>(stride);
            kPlainBlockKernels.inverse_dct(in.data(), in.table(), in.count, expected.data(), step);
            set.inverse_dct(in.data(), in.table(), in.count, got.data(), step);
            for (std::size_t y = 0; y < 8; ++y) {
                const auto begin = static_cast<std::ptrdiff_t>(y * stride);
                ASSERT_TRUE(std::equal(got.begin() + begin, got.begin() + begin + static_cast<std::ptrdiff_t>(width),
                                       expected.begin() + begin))
                    << set.name << ", row " << y << " of " << in.count << " blocks, range " << i % 3;
                for (std::size_t x = room; x < stride && y < 7; ++x) {
                    ASSERT_EQ(got[y * stride + x], kCanary) << set.name << " wrote outside of row " << y;
                }
            }
        }
    }
}

// The definition (T.81, A.3.3) in double precision; the integer version may round differently.
TEST(BlockKernels, PlainInverseDctMatchesTheDefinition) {
    Rng rng({.seed = 2});
    double total = 0;
    int samples = 0;
    for (int i = 0; i < 300 / kSlow; ++i) {
        Coefficients in = random_coefficients(Range::photo, rng);
        in.count = 1;
        std::uint8_t got[8 * 32];
        kPlainBlockKernels.inverse_dct(in.data(), in.table(), 1, got, 32);
        for (int y = 0; y < 8; ++y) {
            for (int x = 0; x < 8; ++x) {
                double sum = 0;
                for (int v = 0; v < 8; ++v) {
                    for (int u = 0; u < 8; ++u) {
                        const double scale =
                            (u == 0 ? std::numbers::sqrt2 / 2 : 1) * (v == 0 ? std::numbers::sqrt2 / 2 : 1);
                        sum += scale * in.data()[8 * v + u] * in.table()[8 * v + u] *
                               std::cos((2 * x + 1) * u * std::numbers::pi / 16) *
                               std::cos((2 * y + 1) * v * std::numbers::pi / 16);
                    }
                }
                const double exact = std::clamp(sum / 4 + 128, 0.0, 255.0);
                ASSERT_NEAR(got[32 * y + x], exact, 1.01);
                total += std::abs(got[32 * y + x] - exact);
                ++samples;
            }
        }
    }
    EXPECT_LT(total / samples, 0.3);  // rounding to integers alone gives 0.25
}

TEST(BlockKernels, UpsamplingOnEverySet) {
    Rng rng({.seed = 3});
    for (const BlockKernels& set : block_kernels()) {
        for (int i = 0; i < 6000 / kSlow; ++i) {
            const int count = 1 + static_cast<int>(rng.below(200));
            const auto samples = static_cast<std::size_t>(count);
            const std::size_t odd = 1 + rng.below(7);
            const Samples near = random_samples(odd + samples + 1 + 64, rng);
            const Samples far = random_samples(odd + samples + 1 + 64, rng);
            const auto check = [&](const char* kernel, std::size_t size, auto call) {
                Samples expected(odd + size + 64 + 50, kCanary);
                Samples got(odd + size + 64 + 50, kCanary);
                call(kPlainBlockKernels, expected.data() + odd);
                call(set, got.data() + odd);
                const auto end = static_cast<std::ptrdiff_t>(odd + size);  // bytes before it must not change either
                ASSERT_TRUE(std::equal(got.begin(), got.begin() + end, expected.begin()))
                    << set.name << " " << kernel << " of " << count;
                ASSERT_TRUE(untouched(got, odd + size + 64)) << set.name << " " << kernel << " of " << count;
                ASSERT_TRUE(untouched(expected, odd + size)) << kernel;
            };
            ASSERT_NO_FATAL_FAILURE(check("h2", 2 * samples, [&](const BlockKernels& kernels, std::uint8_t* out) {
                kernels.upsample_h2(near.data() + odd, count, out);
            }));
            ASSERT_NO_FATAL_FAILURE(check("h2v2", 2 * samples, [&](const BlockKernels& kernels, std::uint8_t* out) {
                kernels.upsample_h2v2(near.data() + odd, far.data() + odd, count, out);
            }));
            for (const int bias : {1, 2}) {
                ASSERT_NO_FATAL_FAILURE(check("v2", samples, [&](const BlockKernels& kernels, std::uint8_t* out) {
                    kernels.upsample_v2(near.data() + odd, far.data() + odd, bias, count, out);
                }));
            }
        }
    }
}

// All 2^24 colours.
TEST(BlockKernels, EveryColorOnEverySet) {
    Samples y(256 + 64);
    for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = static_cast<std::uint8_t>(i);
    }
    Samples expected(std::size_t{3} * 256);
    for (unsigned cb = 0; cb < 256; cb += kSlow) {
        for (unsigned cr = 0; cr < 256; cr += kSlow) {
            const Samples blue(256 + 64, static_cast<std::uint8_t>(cb));
            const Samples red(256 + 64, static_cast<std::uint8_t>(cr));
            kPlainBlockKernels.ycc_to_rgb(y.data(), blue.data(), red.data(), 256, expected.data());
            for (const BlockKernels& set : block_kernels().subspan(1)) {
                Samples got(std::size_t{3} * 256);
                set.ycc_to_rgb(y.data(), blue.data(), red.data(), 256, got.data());
                ASSERT_EQ(got, expected) << set.name << ", cb " << cb << ", cr " << cr;
            }
        }
    }
}

TEST(BlockKernels, ColorsEndWhereTheRowEnds) {
    Rng rng({.seed = 4});
    for (const BlockKernels& set : block_kernels()) {
        for (int count = 1; count <= 300; ++count) {
            const auto pixels = static_cast<std::size_t>(count);
            const std::size_t odd = rng.below(8);
            const Samples y = random_samples(odd + pixels + 64, rng);
            const Samples cb = random_samples(odd + pixels + 64, rng);
            const Samples cr = random_samples(odd + pixels + 64, rng);
            Samples expected(odd + 3 * pixels + 200, kCanary);
            Samples got(odd + 3 * pixels + 200, kCanary);
            const auto color = [&](const BlockKernels& kernels, Samples& out) {
                kernels.ycc_to_rgb(y.data() + odd, cb.data() + odd, cr.data() + odd, count, out.data() + odd);
            };
            color(kPlainBlockKernels, expected);
            color(set, got);
            ASSERT_EQ(got, expected) << set.name << " " << count;
            ASSERT_TRUE(untouched(got, odd + 3 * pixels));
            kPlainBlockKernels.grey_to_rgb(y.data() + odd, count, expected.data() + odd);
            set.grey_to_rgb(y.data() + odd, count, got.data() + odd);
            ASSERT_EQ(got, expected) << set.name << " " << count;
            ASSERT_EQ(got[odd + 3 * pixels - 1], y[odd + pixels - 1]);
        }
    }
}

}  // namespace
}  // namespace stoker
