// Batches of draws for tests of gather and its kernel: crops that reach outside with every padding, resizes, flips,
// erasing with a colour or noise, and a sample without an image.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "stoker/ops/crop.h"
#include "stoker/ops/gather.h"
#include "stoker/ops/random_erasing.h"

namespace stoker::testing {

struct GatherCase {
    ImageSize from;
    int channels = 3;
    ImageSize to;
    GatherOps ops;
    std::vector<GatherDraw> draws;

    GatherBatch batch(const std::uint8_t* images, const GatherDraw* drawn, void* out, DType dtype,
                      Layout layout) const {
        return {.images = images,
                .from = from,
                .channels = channels,
                .draws = drawn,
                .n = static_cast<int>(draws.size()),
                .to = to,
                .ops = ops,
                .factors = normalize_factors({{0.1F, 0.2F, 0.3F, 0.4F}, {0.5F, 0.6F, 0.7F, 0.8F}}),
                .out = out,
                .dtype = dtype,
                .layout = layout};
    }
    std::size_t values() const {
        return draws.size() * static_cast<std::size_t>(to.height) * static_cast<std::size_t>(to.width) *
               static_cast<std::size_t>(channels);
    }
    std::string describe() const {
        return fmt::format("{} x {} x {} to {} x {}{}, padding {}", from.height, from.width, channels, to.height,
                           to.width, ops.resizes ? " resized" : "", static_cast<int>(ops.mode));
    }
};

inline constexpr int kGatherImages = 3;

// A draw of each kind, from `seed`.
inline std::vector<GatherDraw> some_draws(const GatherCase& of, int count, std::uint64_t seed) {
    std::vector<GatherDraw> draws;
    Rng rng({.seed = seed});
    for (int i = 0; i < count; ++i) {
        GatherDraw draw{.image = 1 + rng.below(kGatherImages),
                        .flip_horizontal = rng.below(2) == 1,
                        .flip_vertical = rng.below(2) == 1};
        draw.output.noise = std::uint64_t{rng.next()} << 32 | rng.next();
        if (of.ops.resizes) {
            draw.box = draw_random_resized_crop({.height = of.to.height, .width = of.to.width}, of.from.height,
                                                of.from.width, rng);
        } else {
            const auto offset = [&](int image, int window) {
                return static_cast<int>(rng.below(static_cast<std::uint32_t>(image + window + 7))) - window - 3;
            };
            draw.box = {offset(of.from.height, of.to.height), offset(of.from.width, of.to.width), of.to.height,
                        of.to.width};
        }
        const RandomErasing erasing{.probability = 0.7F, .value = of.ops.erased_value};
        draw.output.erased = draw_random_erasing(erasing, of.to.height, of.to.width, rng).box;
        draws.push_back(draw);
    }
    draws.front().image = 0;
    return draws;
}

inline GatherCase gather_case(ImageSize from, int channels, ImageSize to, const GatherOps& ops, int count = 6) {
    GatherCase made{.from = from, .channels = channels, .to = to, .ops = ops, .draws = {}};
    made.draws = some_draws(made, count, static_cast<std::uint64_t>(from.width * 1000 + to.width * 10 + channels));
    return made;
}

// Every padding and kind of erasing, sizes that are odd, 1, equal, larger and smaller, and 1 to 4 channels.
inline std::vector<GatherCase> gather_cases() {
    const Color fill = {9, 80, 170, 255};
    std::vector<GatherCase> cases;
    for (const auto& [from, to] : {std::pair<ImageSize, ImageSize>{{28, 28}, {28, 28}},
                                   {{32, 32}, {32, 32}},
                                   {{17, 33}, {13, 7}},
                                   {{1, 1}, {3, 2}},
                                   {{5, 9}, {1, 1}},
                                   {{12, 10}, {40, 31}}}) {
        for (const PaddingMode mode :
             {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect, PaddingMode::symmetric}) {
            const int channels = 1 + static_cast<int>(mode);
            cases.push_back(gather_case(from, channels, to,
                                        {.mode = mode, .fill = fill, .erased_value = std::optional<Color>(fill)}));
        }
        cases.push_back(gather_case(from, 3, to, {.resizes = true, .erased_value = std::nullopt}));
        cases.push_back(gather_case(from, 1, to, {.resizes = true, .interpolation = Interpolation::bicubic}));
    }
    cases.push_back(gather_case({70, 50}, 3, {9, 8}, {.resizes = true, .interpolation = Interpolation::bicubic}));
    cases.push_back(gather_case({70, 50}, 3, {9, 8}, {.resizes = true}));
    return cases;
}

}  // namespace stoker::testing
