// The fields of a batch, and the work that all writers of samples share: labels, keys, the data set's further fields.
// Further images and masks go through the ops like the image, boxes are moved with it, and all other values are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/loader_options.h"
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
    std::vector<std::vector<FieldValue>> stored_frames;  // all frames of clips, with a cache
    Buffer recording;                                    // decoded frames, or a decoded sound
    std::span<const std::byte> sound;                    // the file of a sound that is decoded
    bool whole = false;                                  // `stored_frames` are set
    ImageSize image{};       // the size of the sample's image before the ops that ran on it last
    bool drawn = false;      // what fails from here on depends on the random numbers
    bool on_device = false;  // a device decodes the sample's image

    void use_index(JpegIndex* index) {
        transform.decoder.use_index(index);
        fields.decoder.use_index(index);
    }

    // decode_wanted (read_sample.h) of the sample.
    bool decode_recording(const FrameWindow& wanted, std::int64_t channels);
};

struct SampleTask {
    std::int64_t index;  // in the data set
    const RngKey& key;
    const ItemPlace& place;
    SampleScratch& scratch;
    StageClock& clock;
};

// Independent random numbers for each view; those of the first are the sample's.
RngKey key_of_view(RngKey key, int view);

// The pixels of a value that is not encoded.
ConstImageView raw_pixels(const FieldValue& value);

// The value becomes a copy of the pixels in `buffer`.
void set_copy(ConstImageView pixels, FieldValue& value, Buffer& buffer);

class LoaderFields {
  public:
    // All references outlive it. `capacity`: samples of a full batch. Throws InvalidArgument if the options do not fit
    // the data set.
    LoaderFields(const Dataset& dataset, const Transform& transform, const LoaderOptions& options,
                 std::int64_t capacity);

    const Dataset& dataset() const { return dataset_; }
    const Transform& transform() const { return transform_; }
    const LoaderOptions& options() const { return options_; }

    // Whether there are images or masks, whose shapes a good sample gives.
    bool have_pixels() const;
    // Those of the sample in `scratch`, which is number `index`.
    void find_shapes(std::int64_t index, SampleScratch& scratch);

    int views() const { return has_image_ ? options_.views : 0; }  // of the image
    // True if some images run as planes, which no device makes and no cache keeps prepared.
    bool have_planes() const;
    // True if some images or masks are clips; no device makes those either.
    bool have_clips() const;
    // The frames that the sample's clips need.
    FrameWindow frames_of(std::int64_t index, const RngKey& key) const {
        return wanted_frames(options_.clips, index, key);
    }
    const ImageSlot& image() const { return image_; }  // the target of a view, without its address
    ImageSlot image(const Batch& batch) const { return have_own_sizes() ? in_batch(image_, batch) : image_; }
    // True if each batch has its size of images, which no device makes.
    bool have_own_sizes() const { return !options_.bucket_sizes.empty(); }
    std::optional<ImageSize> size_in(const Batch& batch) const {
        return have_own_sizes() ? std::optional(batch.image_size()) : std::nullopt;
    }
    // The field of a view whose pixels are in the batch.
    FieldSpec view_spec(int view) const {
        FieldSpec spec = image_spec(view_name(view), image_, transform_);
        spec.own_size = have_own_sizes();
        return spec;
    }
    // The fields of a batch whose views of the image are `image_of`.
    std::vector<FieldSpec> specs(const std::function<FieldSpec(int view)>& image_of) const;
    // The view's place among them; further views follow the key.
    std::size_t view_at(int view) const { return view == 0 ? 0 : key_at() + static_cast<std::size_t>(view); }

    // Throw DataError for a sample whose label or fields are not those of the data set.
    void check_label(std::int64_t label) const;
    void check(const Sample& sample) const;

    // What `Transform::prepare` does to the image, for the further fields: the ops before the first random one.
    void prepare(const SampleTask& task) const;
    // Writes the further fields.
    void write(const SampleTask& task, OpRange range) const;
    // Their values become zeros, or no entries.
    void clear(const ItemPlace& place) const;
    void write_labels(std::int64_t label, std::int64_t index, std::string key, const ItemPlace& place) const;

  private:
    // One of the data set's further fields.
    struct Plan {
        Field field;
        const Transform* transform;            // of an image or mask
        std::shared_ptr<const Transform> own;  // what `transform` points to, if that is not the loader's
        std::optional<std::int64_t> pad;
        bool bucketed = false;  // a batch pads it to its own length
        bool own_size = false;  // of an image or mask: each batch has its own size
        std::optional<MaskClasses> classes = {};
        ImageSlot slot = {};        // of an image or mask
        std::size_t at = 0;         // its place in the batch's fields
        std::size_t length_at = 0;  // with `pad`, of the field that holds the numbers of entries

        bool ragged() const { return field.any_length() && !pad; }
        ConstImageView mask(const FieldValue& value, ImageSize image, OpRange range, const RngKey& key,
                            TransformScratch& scratch, StageClock& clock) const {
            return transform->mask(value, image, range, key, scratch, clock, classes ? &*classes : nullptr);
        }
    };

    Plan plan_of(const Field& field) const;
    void require_names() const;
    void check_further(const Sample& sample) const;
    void require_clip(const FieldValue& value) const;
    void require_sound(const SampleScratch& scratch) const;
    void require_given(int channels, std::optional<ImageSize> size) const;
    static ImageSlot in_batch(ImageSlot slot, const Batch& batch);
    void use_largest_size(ImageSlot& slot) const;
    ImageSlot planes_slot(ConstPlanesView image, std::optional<ImageSize> size) const;
    ImageSlot slot_of(ConstImageView image, std::optional<ImageSize> size) const;
    FieldSpec image_spec(std::string name, const ImageSlot& slot, const Transform& transform) const;
    FieldSpec spec_of(const Plan& plan) const;
    void write_field(const Plan& plan, const FieldValue& value, const SampleTask& task, OpRange range) const;
    void write_elements(const Plan& plan, std::span<const std::byte> bytes, const ItemPlace& place) const;
    std::size_t key_at() const { return has_image_ ? 3 : 2; }  // after the label and the index

    const Dataset& dataset_;
    const Transform& transform_;
    const LoaderOptions& options_;
    const std::int64_t capacity_;
    const bool has_image_;
    bool deferred_ = true;  // a device normalises
    PixelTarget pixels_;    // of all images, without an address
    ImageSlot image_;
    std::vector<Plan> plans_;
    std::size_t sizes_at_ = 0;  // of kImageSizeField, the last
};

}  // namespace stoker
