// A crop in memory with room for its samples and pixels, as a batch has it on a device.
#pragma once

#include <vector>

#include "codecs/fixtures.h"
#include "stoker/codecs/dct/dct_pixels.h"

namespace stoker::testing {

struct DctCropMemory {
    std::vector<std::byte> memory;
    std::vector<DctCropPlace> places;
    std::vector<Box> boxes;
    std::uint32_t rows = 0;
    std::uint32_t pieces = 0;
    std::uint32_t pixels = 0;

    void add(std::span<const std::byte> crop) {
        const DctCrop& head = *reinterpret_cast<const DctCrop*>(crop.data());
        const auto take = [&](std::size_t bytes) {
            const std::size_t at = std::max(kDctCropAlignment, memory.size());
            memory.resize((at + bytes + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment,
                          std::byte{0xEE});
            return at;
        };
        DctCropPlace place{.crop = take(crop.size())};
        std::copy(crop.begin(), crop.end(), memory.begin() + static_cast<std::ptrdiff_t>(place.crop));
        const auto area = static_cast<std::uint32_t>(head.box.height * head.box.width);
        boxes.push_back(head.box);
        rows = std::max(rows, head.rows);
        pieces = std::max(pieces, head.pieces);
        pixels = std::max(pixels, area);
        place.samples = take(head.samples);
        place.pixels = take(std::size_t{3} * area);
        places.push_back(place);
    }
    void add_nothing() {
        places.push_back({});
        boxes.push_back({});
    }

    DctCropBatch batch() {
        return {.memory = memory.data(),
                .places = places.data(),
                .n = static_cast<int>(places.size()),
                .rows = rows,
                .pieces = pieces,
                .pixels = pixels};
    }
    ConstImageView image(std::size_t i) const {
        const auto [top, left, height, width] = boxes[i];
        return {reinterpret_cast<const std::uint8_t*>(memory.data() + places[i].pixels), height, width, 3,
                std::ptrdiff_t{3} * width};
    }
};

}  // namespace stoker::testing
