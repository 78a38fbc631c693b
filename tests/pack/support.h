// Small folders of images of several kinds, and the samples of a data set as comparable values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/transform.h"
#include "support/put.h"

namespace stoker::testing {

inline Image gradient(int height, int width, int channels, int seed) {
    Image image(height, width, channels);
    const ImageView view = image.view();
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width * channels; ++x) {
            view.row(y)[x] = static_cast<std::uint8_t>((x * 3 + y * 5 + seed * 31 + x * y / 7) & 255);
        }
    }
    return image;
}

// Names and contents, sorted.
inline std::vector<std::pair<std::string, std::string>> files_in(const std::filesystem::path& directory) {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        files.emplace_back(entry.path().filename().string(), read_text(entry.path()));
    }
    std::ranges::sort(files);
    return files;
}

// 12 images in 3 classes: JPEGs of several kinds, and two PNGs, one of them named .jpg.
inline void make_folder(const std::filesystem::path& root) {
    for (int i = 0; i < 12; ++i) {
        const Image image = gradient(40 + 7 * i, 90 - 3 * i, i == 5 ? 1 : 3, i);
        const std::string name = "c" + std::to_string(i / 4) + "/" + std::to_string(i);
        if (i == 3 || i == 7) {
            put(root / (name + (i == 3 ? ".png" : ".jpg")), encode_png(image.view()));
        } else {
            put(root / (name + ".jpg"),
                encode_jpeg(image.view(), {.quality = 60 + 3 * i, .chroma_420 = i % 2 == 0, .progressive = i == 9}));
        }
    }
}

// Key, label, height, width and RGB pixels of one sample.
using Seen = std::tuple<std::string, std::int64_t, int, int, std::string>;

inline std::vector<Seen> all_of(const Dataset& dataset) {
    std::vector<Seen> seen;
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        Sample sample;
        dataset.read(i, sample);
        const ConstImageView view = Transform().prepare(sample, scratch, clock);
        std::string pixels;
        for (int y = 0; y < view.height; ++y) {
            pixels.append(reinterpret_cast<const char*>(view.row(y)), view.row_bytes());
        }
        seen.emplace_back(dataset.key(i), sample.label, view.height, view.width, std::move(pixels));
    }
    return seen;
}

}  // namespace stoker::testing
