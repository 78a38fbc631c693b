// The time from decoded pixels to a sample of a batch, for each kernel set: resize_normalize in one pass, and separate
// ops; and the time of gaussian_blur. The variants take turns, so that a noisy machine slows all of them alike.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/ops/blur_row.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/kernels.h"

namespace {

using namespace stoker;

constexpr int kRounds = 400;

// As many places as a batch has, so that writes go to memory and not to a warm cache.
struct Slot {
    explicit Slot(std::size_t bytes) : item(bytes), memory(64 * bytes) {
        std::fill_n(memory.data(), memory.size(), std::byte{1});
    }
    std::byte* next() { return memory.data() + (used++ % 64) * item; }

    std::size_t item;
    Buffer memory;
    std::size_t used = 0;
};

struct Way {
    std::string name;
    std::function<void()> run;
    std::vector<double> us = {};
};

void measure(std::vector<Way>& ways) {
    for (int round = 0; round < kRounds; ++round) {
        for (Way& way : ways) {
            const auto start = std::chrono::steady_clock::now();
            way.run();
            const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
            way.us.push_back(time.count());
        }
    }
    for (Way& way : ways) {
        std::sort(way.us.begin(), way.us.end());
        fmt::print("  {:<34} {:7.1f} us   best {:7.1f}\n", way.name, way.us[way.us.size() / 2], way.us.front());
    }
}

void compare(ImageSize size, const ResizeGeometry& geometry) {
    const ImageSize source = geometry.source;
    const ImageSize full = geometry.full;
    const Box part = geometry.part;
    const bool flip = geometry.flip;
    fmt::print("{} x {} to {} x {}{}\n", source.height, source.width, part.height, part.width,
               flip ? ", mirrored" : "");
    Image image(size.height, size.width, 3);
    Rng rng({.seed = 1});
    std::generate_n(image.view().data, image.bytes(), [&] { return static_cast<std::uint8_t>(rng.next()); });
    const ConstImageView from = image.view().crop({0, 0, source.height, source.width});
    const Box window{0, 0, source.height, source.width};
    const NormalizeFactors factors = normalize_factors(kImageNetNormalize);
    const std::size_t values = static_cast<std::size_t>(part.height * part.width) * 3;
    Slot slot(values * sizeof(float));
    ResizeScratch scratch;
    Image resized(part.height, part.width, 3);
    std::vector<Way> ways;
    for (const OpKernels& kernels : op_kernels().last(op_kernels().size() - 1)) {
        if (kernels.resize_normalize == nullptr) {
            ways.push_back({fmt::format("{}: op by op, float32 chw", kernels.name), [&] {
                                resize_with(kernels, from, full, part, resized.view(), scratch);
                                if (flip) {
                                    horizontal_flip(resized.view());
                                }
                                kernels.normalize(resized.view().data, values / 3, 3, factors, Layout::chw,
                                                  reinterpret_cast<float*>(slot.next()), values / 3);
                            }});
        }
        for (const auto& [name, interpolation] :
             {std::pair{"bicubic", Interpolation::bicubic}, {"lanczos", Interpolation::lanczos}}) {
            ResizeGeometry other = geometry;
            other.interpolation = interpolation;
            ways.push_back({fmt::format("{}: float32 chw, {}", kernels.name, name), [&, other] {
                                resize_normalize_with(kernels, from, window, other, factors,
                                                      {slot.next(), DType::float32, Layout::chw, false}, scratch);
                            }});
        }
        const auto add = [&](DType dtype, Layout layout, bool streamed) {
            ways.push_back({fmt::format("{}: {} {}{}", kernels.name, dtype_name(dtype),
                                        layout == Layout::chw ? "chw" : "hwc", streamed ? " streamed" : ""),
                            [&, dtype, layout, streamed] {
                                resize_normalize_with(kernels, from, window, geometry, factors,
                                                      {slot.next(), dtype, layout, streamed}, scratch);
                            }});
        };
        add(DType::float32, Layout::chw, false);
        if (kernels.resize_normalize != nullptr) {
            add(DType::float32, Layout::chw, true);
            add(DType::float32, Layout::hwc, true);
            add(DType::bfloat16, Layout::chw, false);
            add(DType::float16, Layout::chw, false);
            add(DType::uint8, Layout::hwc, false);
        }
    }
    measure(ways);
}

void compare_blurs(const BlurParams& params) {
    fmt::print("gaussian_blur of 224 x 224 x 3, kernel {} x {}\n", params.height, params.width);
    Image image(224, 224, 3);
    Rng rng({.seed = 1});
    std::generate_n(image.view().data, image.bytes(), [&] { return static_cast<std::uint8_t>(rng.next()); });
    Image scratch;
    std::vector<Way> ways;
    for (const BlurKernel& kernel : blur_kernels()) {
        ways.push_back({kernel.name, [&] { gaussian_blur_with(kernel, image.view(), params, scratch); }});
    }
    measure(ways);
}

}  // namespace

int main() {
    compare({375, 500}, {{250, 300}, {224, 224}, {0, 0, 224, 224}, true});
    compare({375, 500}, {{375, 500}, {224, 224}, {0, 0, 224, 224}, false});
    compare({375, 500}, {{375, 500}, {256, 341}, {16, 58, 224, 224}, false});
    compare({375, 500}, {{120, 110}, {224, 224}, {0, 0, 224, 224}, true});
    compare({224, 224}, {{224, 224}, {224, 224}, {0, 0, 224, 224}, true});
    compare({32, 32}, {{32, 32}, {32, 32}, {0, 0, 32, 32}, true});
    compare_blurs({.width = 3, .height = 3});
    compare_blurs({.width = 23, .height = 23});
}
