// Batches of draws for tests of assemble and its kernel: resizes of every kind, parts, flips, erasing with a colour or
// noise, and a sample without an image.
#pragma once

#include <string>
#include <vector>

#include "ops/support.h"
#include "stoker/ops/assemble.h"
#include "stoker/ops/random_erasing.h"

namespace stoker::testing {

struct AssembleCase {
    ImageSize to;
    int channels = 3;
    std::optional<Color> erased_value = Color{};
    std::vector<std::byte> memory = std::vector<std::byte>(16, std::byte{0xEE});
    std::vector<AssembleDraw> draws;

    AssembleBatch batch(const std::byte* pixels, const AssembleDraw* drawn, std::uint8_t* out) const {
        return {.memory = pixels,
                .draws = drawn,
                .n = static_cast<int>(draws.size()),
                .channels = channels,
                .to = to,
                .erased_value = erased_value,
                .out = out};
    }
    std::size_t bytes() const {
        return draws.size() * static_cast<std::size_t>(to.height) * static_cast<std::size_t>(to.width) *
               static_cast<std::size_t>(channels);
    }

    // An image of noise that holds what the output reads of a source of this size, resized to `full`.
    void add(ImageSize source, ImageSize full, Interpolation interpolation, Rng& rng) {
        const auto below = [&rng](int bound) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound))); };
        AssembleDraw draw{.image = memory.size(),
                          .source = source,
                          .full = full,
                          .top = below(full.height - to.height + 1),
                          .left = below(full.width - to.width + 1),
                          .flip_horizontal = below(2),
                          .flip_vertical = below(2)};
        draw.interpolation = interpolation;
        draw.window =
            resize_reads({source, full, {draw.top, draw.left, to.height, to.width}, false, draw.interpolation});
        const RandomErasing erasing{.probability = 0.7F, .value = erased_value};
        draw.output = {.noise = std::uint64_t{rng.next()} << 32 | rng.next(),
                       .erased = draw_random_erasing(erasing, to.height, to.width, rng).box};
        const Image pixels = noise(draw.window.height, draw.window.width, channels, rng.next());
        const auto* const data = reinterpret_cast<const std::byte*>(pixels.view().data);
        memory.insert(memory.end(), data, data + pixels.bytes());
        draws.push_back(draw);
    }
};

inline AssembleCase assemble_case(ImageSize to, int channels, const std::vector<std::pair<ImageSize, ImageSize>>& sizes,
                                  std::optional<Color> erased_value = Color{1, 2, 3, 4}) {
    AssembleCase made{.to = to, .channels = channels, .erased_value = erased_value, .draws = {{}}};
    Rng rng({.seed = static_cast<std::uint64_t>(to.width * 100 + to.height)});
    for (const auto& [source, full] : sizes) {
        made.add(source, full, Interpolation::bilinear, rng);
        made.add(source, full, Interpolation::bilinear, rng);
        if (assemble_fits({source, full, {0, 0, to.height, to.width}, false, Interpolation::bicubic})) {
            made.add(source, full, Interpolation::bicubic, rng);
        }
    }
    return made;
}

// Crops, shrinking, enlarging, odd sizes, sizes of 1, one and several bands of rows.
inline std::vector<AssembleCase> assemble_cases() {
    return {assemble_case({9, 8}, 3, {{{9, 8}, {9, 8}}, {{40, 30}, {40, 30}}, {{31, 47}, {13, 11}}}),
            assemble_case({21, 17}, 3, {{{70, 90}, {21, 17}}, {{5, 6}, {23, 30}}, {{21, 40}, {21, 17}}}, std::nullopt),
            assemble_case({1, 1}, 1, {{{1, 1}, {1, 1}}, {{50, 3}, {2, 2}}}),
            assemble_case({16, 5}, 4, {{{33, 34}, {16, 9}}, {{1, 1}, {16, 5}}})};
}

}  // namespace stoker::testing
