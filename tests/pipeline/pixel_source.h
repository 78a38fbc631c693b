// A data set of synthetic pixels for tests of the loader: every sample is a function of its index. Tests may make
// samples slow, failing, or of another size, and give them a field of each kind.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "stoker/base/error.h"
#include "stoker/pipeline/loader.h"

namespace stoker::testing {

class PixelDataset : public Dataset {
  public:
    explicit PixelDataset(std::int64_t size, int height = 12, int width = 10, int channels = 3)
        : size_(size), height_(height), width_(width), channels_(channels) {}

    // With six fields other than image and label.
    static std::shared_ptr<PixelDataset> with_fields(std::int64_t size) {
        auto dataset = std::make_shared<PixelDataset>(size);
        dataset->fields_ = {{.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8},
                            {.name = "boxes", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {-1, 4}},
                            {.name = "pair", .kind = FieldKind::image, .dtype = DType::uint8},
                            {.name = "value", .kind = FieldKind::value, .dtype = DType::float64, .shape = {2}},
                            {.name = "flags", .kind = FieldKind::label, .dtype = DType::int64, .shape = {3}},
                            {.name = "tokens", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {-1}}};
        return dataset;
    }

    std::int64_t size() const override { return size_; }
    std::span<const Field> fields() const override { return fields_; }

    void read(std::int64_t index, Sample& sample) const override {
        ++reads;
        if (delay) {
            std::this_thread::sleep_for(delay(index));
        }
        if (const auto failure = failures.find(index); failure != failures.end()) {
            failure->second();
        }
        sample.height = height_ + (taller.contains(index) ? 1 : 0);
        sample.width = width_;
        sample.channels = channels_;
        sample.storage.resize(static_cast<std::size_t>(sample.height * width_ * channels_));
        std::uint32_t state = static_cast<std::uint32_t>(index) * 2654435761u + 12345u;
        for (std::byte& byte : sample.storage.bytes()) {
            state = state * 1664525u + 1013904223u;
            byte = static_cast<std::byte>(state >> 24);
        }
        sample.bytes = sample.storage.bytes();
        if (!unlabelled.contains(index)) {
            sample.label = index * 3 % 10;
        }
        if (!fields_.empty()) {
            read_fields(index, sample);
        }
    }

    std::string key(std::int64_t index) const override {
        if (nameless.contains(index)) {
            throw DataError({}, {.where = "key", .expected = "a key", .got = "none"});
        }
        return fmt::format("pixels/{:05}", index);
    }
    std::string path() const override { return "made-up"; }

    std::function<std::chrono::microseconds(std::int64_t)> delay;
    std::map<std::int64_t, std::function<void()>> failures;
    std::set<std::int64_t> taller;      // one row more than the others
    std::set<std::int64_t> unlabelled;  // read leaves the label alone
    std::set<std::int64_t> nameless;    // their keys cannot be read
    mutable std::atomic<std::int64_t> reads{0};

  private:
    void read_fields(std::int64_t index, Sample& sample) const {
        const auto pixels = static_cast<std::size_t>(sample.height * sample.width);
        sample.field(0).set_raw(sample.bytes.first(pixels), sample.height, sample.width, 1);
        const auto left = static_cast<float>(index % 5);
        std::vector<float> boxes;
        for (std::int64_t i = 0; i < index % 3; ++i) {
            boxes.insert(boxes.end(), {left, 1, left + 4, 9});
        }
        sample.field(1).copy_elements(boxes);
        sample.field(2).set_raw(sample.bytes, sample.height, sample.width, sample.channels);
        sample.field(3).copy_elements(std::array{static_cast<double>(index), 0.5});
        sample.field(4).copy_elements(std::array{index % 2, index % 3, index % 5});
        sample.field(5).copy_elements(std::vector<std::int64_t>(static_cast<std::size_t>(index % 4), index));
    }

    std::int64_t size_;
    int height_, width_, channels_;
    std::vector<Field> fields_;
};

// The ops of a usual training run, for images of any size.
inline Transform random_ops() {
    return Transform(std::vector<Op>{RandomResizedCrop{.height = 8, .width = 8}, HorizontalFlip{}, kImageNetNormalize});
}

// Everything in a batch, copied.
struct Seen {
    std::int64_t epoch = 0;
    std::int64_t number = 0;
    std::vector<float> image;
    std::vector<std::int64_t> labels;
    std::vector<std::int64_t> indices;
    std::vector<std::string> keys;
    std::map<std::string, std::string> fields;  // bytes of the further fields
    std::uint64_t hash = 0;

    bool operator==(const Seen&) const = default;
};

// The bytes of all further fields; of ragged ones also where each sample begins.
inline std::map<std::string, std::string> further_fields(const Batch& batch) {
    const auto bytes_of = [](const TensorView& view) {
        return std::string(reinterpret_cast<const char*>(view.data), view.bytes());
    };
    std::map<std::string, std::string> fields;
    for (const FieldSpec& spec : batch.fields()) {
        const std::set<std::string_view> usual = {kImageField, kLabelField, kIndexField, kKeyField};
        if (usual.contains(spec.name)) {
            continue;
        }
        if (!spec.ragged) {
            fields[spec.name] = bytes_of(batch.field(spec.name));
            continue;
        }
        const RaggedView ragged = batch.ragged(spec.name);
        fields[spec.name] = fmt::format("{} {}", fmt::join(ragged.offsets, ","), bytes_of(ragged.values));
    }
    return fields;
}

inline Seen see(Batch& batch) {
    const auto image = batch.field(kImageField).as<float>();
    const auto labels = batch.field(kLabelField).as<std::int64_t>();
    const auto indices = batch.field(kIndexField).as<std::int64_t>();
    Seen seen{.epoch = batch.epoch(),
              .number = batch.number(),
              .image = {image.begin(), image.end()},
              .labels = {labels.begin(), labels.end()},
              .indices = {indices.begin(), indices.end()},
              .keys = {},
              .fields = further_fields(batch),
              .hash = batch.hash()};
    for (std::int64_t i = 0; i < batch.size(); ++i) {
        seen.keys.push_back(batch.payload(kKeyField, i));
    }
    return seen;
}

// The remaining batches of `epochs` epochs, including the null at the end of each.
inline std::vector<Seen> see_epochs(Loader& loader, int epochs) {
    std::vector<Seen> seen;
    while (epochs > 0) {
        if (const auto batch = loader.next()) {
            seen.push_back(see(*batch));
        } else {
            --epochs;
        }
    }
    return seen;
}

// The first difference between two runs; gtest would print two megabytes of floats.
inline std::string difference(const std::vector<Seen>& a, const std::vector<Seen>& b) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        if (!(a[i] == b[i])) {
            return fmt::format("batch {} (epoch {} number {} against epoch {} number {}): {}{}{}{}{}", i, a[i].epoch,
                               a[i].number, b[i].epoch, b[i].number, a[i].indices != b[i].indices ? "indices " : "",
                               a[i].labels != b[i].labels ? "labels " : "", a[i].image != b[i].image ? "image " : "",
                               a[i].keys != b[i].keys || a[i].hash != b[i].hash ? "keys " : "",
                               a[i].fields != b[i].fields ? "fields" : "");
        }
    }
    return a.size() == b.size() ? "" : fmt::format("{} batches against {}", a.size(), b.size());
}

// Counts what goes through it.
class CountingAllocator final : public Allocator {
  public:
    std::byte* allocate(std::size_t bytes) override {
        if (++allocations > most) {
            throw IoError({.where = "test memory", .expected = "more", .got = "none"});
        }
        ++live;
        return host_allocator().allocate(bytes);
    }
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        --live;
        host_allocator().deallocate(data, bytes);
    }
    bool pinned() const override { return true; }

    std::atomic<std::int64_t> allocations{0};
    std::atomic<std::int64_t> live{0};
    std::atomic<std::int64_t> most{1 << 20};
};

}  // namespace stoker::testing
