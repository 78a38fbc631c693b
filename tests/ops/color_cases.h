// Batches of images and draws for tests of `colors` and its kernel: every order of a jitter's steps, grays, erased
// boxes of a colour or noise, and an image that stays. The draws lie within GatherDraws.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/support.h"
#include "stoker/ops/colors.h"
#include "stoker/ops/gather.h"
#include "stoker/ops/random_erasing.h"

namespace stoker::testing {

struct ColorCase {
    ImageSize size;
    int channels = 3;
    std::optional<Color> erased_value;
    std::vector<std::uint8_t> images = {};
    std::vector<ColorJitterParams> jitters = {};
    std::vector<bool> gray = {};
    std::vector<GatherDraw> draws = {};

    ColorsBatch batch(const GatherDraw* drawn, std::uint8_t* pixels) const {
        return {.draws = &drawn->output,
                .stride = sizeof(GatherDraw),
                .n = static_cast<int>(draws.size()),
                .size = size,
                .channels = channels,
                .erased_value = erased_value,
                .images = pixels};
    }
    ImageView view(std::vector<std::uint8_t>& pixels, std::size_t i) const {
        const std::ptrdiff_t row = std::ptrdiff_t{size.width} * channels;
        return {pixels.data() + static_cast<std::ptrdiff_t>(i) * row * size.height, size.height, size.width, channels,
                row};
    }

    void add(const ColorJitterParams& jitter, bool grays, Rng& rng) {
        GatherDraw draw;
        draw.output.add(jitter);
        if (grays) {
            draw.output.add(ColorStep::gray);
        }
        const RandomErasing erasing{.probability = 0.6F, .value = erased_value};
        draw.output.erased = draw_random_erasing(erasing, size.height, size.width, rng).box;
        draw.output.noise = rng.next();
        const Image pixels = noise(size.height, size.width, channels, rng.next());
        images.insert(images.end(), pixels.view().data, pixels.view().data + pixels.bytes());
        jitters.push_back(jitter);
        gray.push_back(grays);
        draws.push_back(draw);
    }
};

inline ColorCase color_case(ImageSize size, int channels, std::optional<Color> erased_value = Color{1, 2, 3, 4},
                            int most = 24) {
    ColorCase made{.size = size, .channels = channels, .erased_value = erased_value};
    Rng rng({.seed = static_cast<std::uint64_t>(size.height * 1000 + size.width * 10 + channels)});
    ColorJitterParams jitter;
    std::ranges::sort(jitter.order);
    do {
        jitter.brightness = rng.uniform(0.4F, 1.8F);
        jitter.contrast = rng.uniform(0.4F, 1.8F);
        jitter.saturation = rng.uniform(0, 2);
        jitter.hue = rng.uniform(-0.5F, 0.5F);
        made.add(jitter, rng.below(4) == 0, rng);
    } while (std::ranges::next_permutation(jitter.order).found && std::ssize(made.draws) < most);
    made.draws.back().output = {};  // one that stays
    made.jitters.back() = {};
    made.gray.back() = false;
    return made;
}

inline std::vector<ColorCase> color_cases() {
    return {color_case({23, 17}, 3), color_case({23, 17}, 3, std::nullopt), color_case({19, 31}, 1),
            color_case({1, 1}, 3), color_case({40, 30}, 3, Color{200, 0, 7, 0}, 3)};
}

}  // namespace stoker::testing
