#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/sample_writer.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

FieldSpec spec_of(int view, const LoaderFields& fields, const PackedImages& images) {
    const ImageSlot& image = fields.image();
    const OutputOps output = output_ops(fields.transform().slice(OpRange::all));
    const DeferredDecode decode{.to = {image.height, image.width},
                                .channels = image.channels,
                                .erased_value = output.erased_value,
                                .colors = output.colors,
                                .shared = images.shared};
    FieldSpec spec = fields.view_spec(view);
    spec.shape = {
        DctCropSlot::sample_bytes(images.crop_bytes, static_cast<std::int64_t>(decode.image_bytes()), images.shared)};
    spec.layout = FieldLayout::plain;
    spec.deferred->decode = decode;
    return spec;
}

class PackedWriter final : public SampleWriter {
  public:
    PackedWriter(const LoaderFields& fields, const PackedImages& images)
        : SampleWriter(fields, images.cache, [&](int view) { return spec_of(view, fields, images); }),
          images_(images),
          pixel_bytes_(spec_of(0, fields, images).deferred->decode->image_bytes()) {}

    void write(const SampleTask& task) const override {
        SampleScratch& scratch = task.scratch;
        const bool cached = read(task);
        scratch.drawn = true;
        scratch.crops.resize(static_cast<std::size_t>(fields_.views()));
        for (int view = 0; view < fields_.views(); ++view) {
            if (!make_crop(view, task)) {
                make_pixels(view, task);
            }
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::all);
        if (!cached) {
            keep(task);
        }
        for (int view = 0; view < fields_.views(); ++view) {
            const bool on_device = place_view(view, task);
            scratch.on_device = view == 0 ? on_device : scratch.on_device;
        }
    }

    void clear(const ItemPlace& place) const override {
        for (int view = 0; view < fields_.views(); ++view) {
            const DctCropSlot crops = slot(view, place);
            crops.set_nothing(place.item);
            if (images_.shared) {
                std::memset(pixels_in(crops, place), 0, pixel_bytes_);
            }
        }
    }

    // There may be memory for slots without crops.
    std::optional<ImageOptions> smaller() const override {
        return images_.shared ? std::optional<ImageOptions>(images_.as_bytes()) : std::nullopt;
    }

  private:
    DctCropSlot slot(int view, const ItemPlace& place) const { return place.batch.crop_slot(fields_.view_at(view)); }
    // The place that the sample's pixels have in a shared slot.
    std::byte* pixels_in(const DctCropSlot& crops, const ItemPlace& place) const {
        return crops.memory() + crops.pixels_at(place.item, pixel_bytes_);
    }

    // False if the host must make the pixels: the device cannot, or need not.
    bool make_crop(int view, const SampleTask& task) const {
        if (images_.shared && !task.place.urgent) {
            return false;
        }
        Batch& batch = task.place.batch;
        const std::size_t at = fields_.view_at(view);
        const std::size_t most = images_.shared ? batch.crop_capacity(at).left()
                                                : fields()[at].sample_bytes() * static_cast<std::size_t>(batch.size());
        const auto image = transform_.dct_crop(task.scratch.sample, key_of_view(task.key, view), most,
                                               task.scratch.transform, fields_.image(), task.clock);
        if (!image) {
            return false;
        }
        DctCropView& to = task.scratch.crops[static_cast<std::size_t>(view)];
        to.bytes = image->crop;
        to.draw = image->draw;
        if (view + 1 < fields_.views()) {  // the next crop overwrites it
            to.own.resize(to.bytes.size());
            std::ranges::copy(to.bytes, to.own.data());
            to.bytes = std::as_const(to.own).bytes();
        }
        return true;
    }

    // In the sample's place, if it has one.
    void make_pixels(int view, const SampleTask& task) const {
        DctCropView& to = task.scratch.crops[static_cast<std::size_t>(view)];
        ImageSlot pixels = fields_.image();
        if (images_.shared) {
            pixels.pixels.data = pixels_in(slot(view, task.place), task.place);
        } else {
            to.own.resize(pixel_bytes_);
            pixels.pixels.data = to.own.data();
            to.bytes = std::as_const(to.own).bytes();
        }
        transform_.run(task.scratch.sample, key_of_view(task.key, view), task.scratch.transform, pixels, task.clock);
        to.draw.reset();
    }

    // Takes capacity, which an item of the batch does once. So it comes after all that may make the sample a bad one:
    // an image that has a crop also has pixels. Returns true if the device makes the image.
    bool place_view(int view, const SampleTask& task) const {
        const DctCropView& image = task.scratch.crops[static_cast<std::size_t>(view)];
        const std::int64_t item = task.place.item;
        const DctCropSlot crops = slot(view, task.place);
        DctCropCapacity& capacity = task.place.batch.crop_capacity(fields_.view_at(view));
        if (image.draw) {
            if (const auto taken = capacity.take(image.bytes.size())) {
                crops.set_crop(item, *taken, image.bytes, *image.draw);
                return true;
            }
            make_pixels(view, task);
        }
        const std::size_t at = images_.shared ? crops.pixels_at(item, pixel_bytes_) : capacity.take_least();
        if (!images_.shared) {
            std::ranges::copy(image.bytes, crops.memory() + at);
        }
        crops.set_pixels(item, at, {fields_.image().height, fields_.image().width});
        return false;
    }

    const PackedImages images_;
    const std::size_t pixel_bytes_;  // of an image
};

}  // namespace

std::unique_ptr<SampleWriter> make_packed_writer(const LoaderFields& fields, const PackedImages& images) {
    if (fields.image().width > kAssembleWidth) {  // assemble would refuse it at the first batch
        throw InvalidArgument(
            {.where = "data.decode_on",
             .expected = fmt::format("images of at most {} pixels in width for \"device\"", kAssembleWidth),
             .got = fmt::format("{} x {}, as the ops make them", fields.image().height, fields.image().width),
             .hint = "use data.decode_on = \"cpu\", or ops that make smaller images"});
    }
    return std::make_unique<PackedWriter>(fields, images);
}

}  // namespace stoker
