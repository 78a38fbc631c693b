// MixUp, CutMix and their soft targets on plain memory, one value at a time. Each sample is mixed with the previous
// one, the first sample with the last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/base/tensor_view.h"

namespace stoker::testing {

// `images` float32 (N, ...), in place: lambda of the image itself, 1 - lambda of the previous one.
inline void mixup_reference(const TensorView& images, double lambda) {
    const std::span<float> pixels = images.as<float>();
    const std::vector<float> before(pixels.begin(), pixels.end());
    const std::size_t size = pixels.size() / static_cast<std::size_t>(images.shape[0]);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        const float previous = before[(i + pixels.size() - size) % pixels.size()];
        pixels[i] = previous * static_cast<float>(1.0 - lambda) + before[i] * static_cast<float>(lambda);
    }
}

// `images` float32 (N, C, H, W), in place: the pixels in `box` become those of the previous image.
inline void cutmix_reference(const TensorView& images, const Box& box) {
    const std::span<float> pixels = images.as<float>();
    const std::vector<float> before(pixels.begin(), pixels.end());
    const std::size_t size = pixels.size() / static_cast<std::size_t>(images.shape[0]);
    const auto height = static_cast<std::size_t>(images.shape[2]);
    const auto width = static_cast<std::size_t>(images.shape[3]);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        const auto x = static_cast<int>(i % width);
        const auto y = static_cast<int>(i / width % height);
        if (y >= box.top && y < box.top + box.height && x >= box.left && x < box.left + box.width) {
            pixels[i] = before[(i + pixels.size() - size) % pixels.size()];
        }
    }
}

// Class indices (N) to float32 (N, classes): lambda for the sample's class, 1 - lambda for the previous sample's.
inline void soft_targets_reference(std::span<const std::int64_t> labels, double lambda, const TensorView& targets) {
    const auto classes = static_cast<std::size_t>(targets.shape[1]);
    const std::span<float> out = targets.as<float>();
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const std::int64_t previous = labels[(i + labels.size() - 1) % labels.size()];
        out[i * classes + static_cast<std::size_t>(previous)] = static_cast<float>(1.0 - lambda);
        out[i * classes + static_cast<std::size_t>(labels[i])] += static_cast<float>(lambda);
    }
}

}  // namespace stoker::testing
