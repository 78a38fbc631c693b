// In-memory data sets for tests of tasks: 4x4 images of noise, and one further field that the image decides on.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"

namespace stoker::testing {

inline constexpr std::int64_t kLabels = 3;   // of a multilabel sample
inline constexpr std::int64_t kNumbers = 2;  // of a regression sample
inline constexpr std::int64_t kTokens = 7;   // of a sentence, T + 1
inline constexpr std::int64_t kVocabulary = 5;

class TaskDataset final : public Dataset {
  public:
    // Fields: "marks" (label), "angles" (value), "mask" (mask) or "text" (tokens).
    TaskDataset(std::int64_t size, FieldKind kind, std::uint64_t seed = 1) : size_(size), seed_(seed) {
        if (kind == FieldKind::label) {
            fields_ = {{.name = "marks", .kind = kind, .dtype = DType::uint8, .shape = {kLabels}}};
        } else if (kind == FieldKind::value) {
            fields_ = {{.name = "angles", .kind = kind, .dtype = DType::float32, .shape = {kNumbers}}};
        } else if (kind == FieldKind::mask) {
            fields_ = {{.name = "mask", .kind = kind, .dtype = DType::uint8}};
        } else {
            fields_ = {{.name = "text", .kind = kind, .dtype = DType::int64, .shape = {kTokens}}};
        }
    }

    std::int64_t size() const override { return size_; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        Rng rng({.seed = seed_, .sample = static_cast<std::uint64_t>(index)});
        std::vector<std::uint8_t> pixels(16);
        for (std::uint8_t& pixel : pixels) {
            pixel = static_cast<std::uint8_t>(rng.below(256));
        }
        sample.storage.resize(pixels.size());
        std::memcpy(sample.storage.data(), pixels.data(), pixels.size());
        sample.set_raw(sample.storage.bytes(), 4, 4, 1);
        FieldValue& field = sample.field(0);
        if (fields_[0].kind == FieldKind::label) {
            std::vector<std::uint8_t> marks;
            for (std::size_t i = 0; i < kLabels; ++i) {
                marks.push_back(pixels[i] > 128 ? present : std::uint8_t{0});
            }
            field.copy_elements(marks);
        } else if (fields_[0].kind == FieldKind::value) {
            field.copy_elements(
                std::vector<float>{static_cast<float>(pixels[0]) / 255, static_cast<float>(pixels[1]) / 128 - 1});
        } else if (fields_[0].kind == FieldKind::mask) {
            field.storage.resize(pixels.size());
            for (std::size_t i = 0; i < pixels.size(); ++i) {
                field.storage.data()[i] = std::byte{pixels[i] > 240 ? std::uint8_t{255} : largest_class(pixels[i])};
            }
            field.set_raw(field.storage.bytes(), 4, 4, 1);
        } else {
            std::vector<std::int64_t> tokens = {pixels[0] % kVocabulary};
            while (std::ssize(tokens) < kTokens) {
                tokens.push_back((tokens.back() + 1 + pixels[tokens.size()] / 200) % kVocabulary);
            }
            tokens.back() += last_token;
            field.copy_elements(tokens);
        }
    }

    std::uint8_t mask_classes = 2;
    std::uint8_t present = 1;     // of a label
    std::int64_t last_token = 0;  // added to it

  private:
    std::uint8_t largest_class(std::uint8_t pixel) const {
        return pixel > 128 ? static_cast<std::uint8_t>(mask_classes - 1) : std::uint8_t{0};
    }

    std::int64_t size_;
    std::uint64_t seed_;
    std::vector<Field> fields_;
};

}  // namespace stoker::testing
