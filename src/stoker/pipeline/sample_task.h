// What a thread needs to write a sample: its place in the batch, its random numbers, and buffers that the thread reuses
// for all samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/records/stages.h"

namespace stoker {

// The place of one sample in a batch.
struct ItemPlace {
    Batch& batch;
    std::int64_t item;
    bool urgent;  // RingTask::urgent

    std::span<std::byte> bytes(std::size_t field) const { return batch.item(field, item); }
};

// A view that is ready for its DctCropSlot.
struct DctCropView {
    std::span<const std::byte> bytes;  // in `own`, or in the transform's scratch
    std::optional<AssembleDraw> draw;  // of a crop; empty: `bytes` are pixels, or they have their place already
    Buffer own;
};

struct SampleScratch {
    Sample sample;
    TransformScratch transform;
    TransformScratch fields;         // of further images and masks
    Buffer packed;                   // contiguous pixels for the cache
    std::vector<DctCropView> crops;  // of each view, for a device that decodes
    Buffer boxes;
    ImageSize image{};       // the size of the sample's image before the ops that ran on it last
    bool drawn = false;      // what fails from here on depends on the random numbers
    bool on_device = false;  // a device decodes the sample's image
};

struct SampleTask {
    std::int64_t index;  // in the data set
    const RngKey& key;
    const ItemPlace& place;
    SampleScratch& scratch;
    StageClock& clock;
};

}  // namespace stoker
