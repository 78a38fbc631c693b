// Compares the batches of a loader whose images a device decodes, made by the reference implementation, with those of
// the ordinary loader.
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "stoker/pipeline/deferred_images.h"
#include "stoker/pipeline/loader.h"

namespace stoker::testing {

inline constexpr std::size_t kScratch = 1 << 16;  // several groups for each batch

struct Made {
    std::vector<std::vector<std::uint8_t>> fields;  // of fixed sizes: the images of each view, the labels, ...
    std::vector<std::string> keys;
    std::vector<std::string> bad;

    bool operator==(const Made&) const = default;
};

struct Counts {
    int crops = 0;
    int samples = 0;
    std::size_t groups = 0;
};

inline std::vector<std::uint8_t> bytes_in(const TensorView& view) {
    const auto* const data = reinterpret_cast<const std::uint8_t*>(view.data);
    return {data, data + view.bytes()};
}

// The images that a device makes of a field.
inline std::vector<std::uint8_t> decoded(Batch& batch, std::size_t at, Counts& counts) {
    const DeferredDecode& deferred = *batch.fields()[at].deferred->decode;
    const DctCropSlot slot = batch.crop_slot(at);
    const std::size_t used = batch.used_bytes(batch.fields()[at].name);
    EXPECT_LE(used, batch.fields()[at].sample_bytes() * static_cast<std::size_t>(batch.size()));
    std::vector<std::byte> memory(used + kScratch);
    std::vector<std::uint8_t> out(deferred.image_bytes() * static_cast<std::size_t>(batch.size()), 0xEE);
    const std::vector<DctCropGroup> groups = plan_groups(slot, batch.size(), used, kScratch);
    std::copy_n(slot.memory(), used, memory.begin());
    make_images(
        {.decode = deferred, .memory = memory.data(), .samples = batch.size(), .groups = groups, .out = out.data()});
    for (std::int64_t i = 0; i < batch.size(); ++i) {
        counts.crops += slot.places()[i].crop != 0 ? 1 : 0;
        ++counts.samples;
    }
    counts.groups += groups.size();
    return out;
}

inline std::vector<Made> see_epochs(Loader& loader, int epochs, Counts& counts) {
    std::vector<Made> seen;
    while (epochs > 0) {
        const auto batch = loader.next();
        if (batch == nullptr) {
            --epochs;
            continue;
        }
        Made made;
        for (std::size_t at = 0; at < batch->fields().size(); ++at) {
            const FieldSpec& spec = batch->fields()[at];
            if (!spec.ragged) {
                made.fields.push_back(spec.deferred && spec.deferred->decode ? decoded(*batch, at, counts)
                                                                             : bytes_in(batch->field(spec.name)));
            }
        }
        for (std::int64_t i = 0; i < batch->size(); ++i) {
            made.keys.push_back(batch->payload(kKeyField, i));
        }
        for (const BadSample& bad : batch->bad_samples()) {
            made.bad.push_back(
                fmt::format("{} {} {} {} {}", bad.item, bad.index, bad.key, bad.reason, bad.replaced_by.value_or(-1)));
        }
        seen.push_back(std::move(made));
    }
    return seen;
}

inline LoaderOptions host_options(int workers = 2) {
    return {.batch_size = 8,
            .workers = workers,
            .seed = 4,
            .bad_samples = 10,
            .images = PixelImages{.dtype = {}},
            .views = 2};
}

inline const PackedImages kPacked{.crop_bytes = 20000};
inline const PackedImages kShared{.crop_bytes = 20000, .shared = true};

inline Counts expect_the_bytes_of_the_host(const std::shared_ptr<const Dataset>& dataset, const Transform& transform,
                                           LoaderOptions options, const PackedImages& packed = kPacked) {
    Loader host(dataset, transform, options);
    options.images = packed;
    Loader own(dataset, transform, options);
    EXPECT_EQ(own.image_shape(), host.image_shape());
    Counts counts;
    const std::vector<Made> expected = see_epochs(host, 2, counts);
    const std::vector<Made> made = see_epochs(own, 2, counts);
    EXPECT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < std::min(made.size(), expected.size()); ++i) {
        EXPECT_TRUE(made[i] == expected[i]) << "batch " << i;
    }
    return counts;
}

}  // namespace stoker::testing
