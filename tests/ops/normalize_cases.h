// Batches of noise for normalize_cuda, with the pixels that its reference makes of each image: for the kernel on the
// CPU and on a GPU.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "ops/support.h"
#include "stoker/ops/normalize_cuda.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker::testing {

// Three images.
struct NormalizeCase {
    static constexpr int kImages = 3;

    Image batch;  // one image below the other
    int height = 0;
    NormalizeFactors factors;
    DType dtype = DType::float32;
    Layout layout = Layout::chw;

    int width() const { return batch.view().width; }
    int channels() const { return batch.view().channels; }
    std::size_t out_bytes() const { return batch.bytes() * item_size(dtype); }

    std::string name() const {
        return fmt::format("{} channels of {}x{} to {}", channels(), height, width(), dtype_name(dtype));
    }

    // `pixels` (N, H, W, C) and `out` are memory that the kernel can address.
    void run(const std::uint8_t* pixels, std::byte* out) const {
        normalize_cuda({.images = pixels,
                        .n = kImages,
                        .h = height,
                        .w = width(),
                        .c = channels(),
                        .factors = factors,
                        .out = out,
                        .dtype = dtype,
                        .layout = layout},
                       nullptr);
    }

    std::vector<std::byte> expected() const {
        std::vector<std::byte> all(out_bytes());
        for (int i = 0; i < kImages; ++i) {
            const ConstImageView image = batch.view().crop({i * height, 0, height, width()});
            std::byte* const out = all.data() + static_cast<std::size_t>(i) * (out_bytes() / kImages);
            ResizeScratch scratch;
            resize_normalize(image, {0, 0, height, width()},
                             {{height, width()}, {height, width()}, {0, 0, height, width()}, false}, factors,
                             {.data = out, .dtype = dtype, .layout = layout}, scratch);
        }
        return all;
    }
};

// One to four channels of these sizes, in every layout and type.
template <typename Check>
void for_each_normalize_case(std::span<const std::pair<int, int>> sizes, const Check& check) {
    for (int channels = 1; channels <= 4; ++channels) {
        for (const auto& [height, width] : sizes) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
                    check(NormalizeCase{.batch = noise(NormalizeCase::kImages * height, width, channels),
                                        .height = height,
                                        .factors = normalize_factors(kImageNetNormalize),
                                        .dtype = dtype,
                                        .layout = layout});
                }
            }
        }
    }
}

}  // namespace stoker::testing
