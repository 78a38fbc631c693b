// The fields of a batch, and what all writers of samples share: labels, keys, and the data set's further fields.
// Further images and masks go through the ops like the image, boxes are moved with it, and all other values are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/loader_options.h"
#include "stoker/pipeline/sample_task.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/records/stages.h"

namespace stoker {

// Independent random numbers for each view; those of the first are the sample's.
RngKey key_of_view(RngKey key, int view);

// The pixels of a value that is not encoded.
ConstImageView raw_pixels(const FieldValue& value);

class LoaderFields {
  public:
    // All arguments outlive it. Throws InvalidArgument if the options do not fit the data set.
    LoaderFields(const Dataset& dataset, const Transform& transform, const LoaderOptions& options);

    // Whether there are images or masks, whose shapes a good sample gives.
    bool have_pixels() const;
    // Those of the sample in `scratch`, which is number `index`.
    void find_shapes(std::int64_t index, SampleScratch& scratch);

    int views() const { return has_image_ ? options_.views : 0; }  // of the image
    const ImageSlot& image() const { return image_; }              // the target of a view, without its address
    // The same in batches of `capacity` samples.
    ImageSlot image(std::int64_t capacity) const;
    // The field of a view whose pixels are in the batch.
    FieldSpec view_spec(int view) const { return image_spec(view_name(view), image_, transform_); }
    // The fields of a batch whose views of the image are `image_of`.
    std::vector<FieldSpec> specs(const std::function<FieldSpec(int view)>& image_of) const;
    // Places among them; further views follow the key.
    std::size_t view_at(int view) const { return view == 0 ? 0 : key_at() + static_cast<std::size_t>(view); }

    // Throw DataError for a sample whose label or fields are not those of the data set.
    void check_label(std::int64_t label) const;
    void check_further(const Sample& sample) const;
    void check(const Sample& sample) const {
        check_label(sample.label);
        check_further(sample);
    }

    // What `Transform::prepare` does to the image, for the further fields: the ops before the first random one.
    void prepare(const SampleTask& task) const;
    // Writes the further fields.
    void write(const SampleTask& task, OpRange range) const;
    void write_label(std::int64_t label, const ItemPlace& place) const;
    void write_index(std::int64_t index, const ItemPlace& place) const;
    std::string& key(const ItemPlace& place) const { return place.batch.payload(key_at(), place.item); }
    // Zeros, label -1, and no entries.
    void clear(const ItemPlace& place) const;

  private:
    // One of the data set's further fields.
    struct Plan {
        Field field;
        const Transform* transform;            // of an image or mask
        std::shared_ptr<const Transform> own;  // what `transform` points to, if that is not the loader's
        std::optional<std::int64_t> pad;
        ImageSlot slot = {};        // of an image or mask
        std::size_t at = 0;         // its place in the batch's fields
        std::size_t length_at = 0;  // with `pad`, of the field that holds the numbers of entries

        bool ragged() const { return field.any_length() && !pad; }
    };

    Plan plan_of(const Field& field) const;
    void require_names() const;
    ImageSlot slot_of(ConstImageView image, std::optional<ImageSize> size) const;
    FieldSpec image_spec(std::string name, const ImageSlot& slot, const Transform& transform) const;
    FieldSpec spec_of(const Plan& plan) const;
    void write_field(const Plan& plan, const FieldValue& value, const SampleTask& task, OpRange range) const;
    void write_elements(const Plan& plan, std::span<const std::byte> bytes, const ItemPlace& place) const;
    std::size_t label_at() const { return has_image_ ? 1 : 0; }
    std::size_t index_at() const { return label_at() + 1; }
    std::size_t key_at() const { return label_at() + 2; }

    const Dataset& dataset_;
    const Transform& transform_;
    const LoaderOptions& options_;
    const bool has_image_;
    const bool deferred_;  // a device normalises
    PixelTarget pixels_;   // of all images, without an address
    ImageSlot image_;
    std::vector<Plan> plans_;
};

}  // namespace stoker
