#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/output_ops.h"
#include "stoker/pipeline/writers/writers.h"

namespace stoker {
namespace {

DeferredDecode decode_of(const WriterSetup& setup, const PackedImages& images) {
    const ImageSlot& image = setup.fields.image();
    const OutputOps output = output_ops(setup.transform.slice(OpRange::all));
    return {.to = {image.height, image.width},
            .channels = image.channels,
            .erased_value = output.erased_value,
            .colors = output.colors,
            .shared = images.shared};
}

FieldSpec spec_of(int view, const WriterSetup& setup, const PackedImages& images) {
    FieldSpec spec = setup.fields.view_spec(view);
    const DeferredDecode decode = decode_of(setup, images);
    const auto pixels = static_cast<std::int64_t>(decode.image_bytes());
    spec.shape = {images.shared ? DctCropSlot::shared_sample_bytes(images.crop_bytes, pixels)
                                : DctCropSlot::sample_bytes(images.crop_bytes, pixels)};
    spec.layout = FieldLayout::plain;
    spec.deferred->decode = decode;
    return spec;
}

// Before the first batch: assemble would refuse it.
void require_assembled(const ImageSlot& image) {
    if (image.width > kAssembleWidth) {
        throw InvalidArgument(
            {.where = "data.decode_on",
             .expected = fmt::format("images of at most {} pixels in width for \"device\"", kAssembleWidth),
             .got = fmt::format("{} x {}, as the ops make them", image.height, image.width),
             .hint = "use data.decode_on = \"cpu\", or ops that make smaller images"});
    }
}

class PackedWriter final : public SampleWriter {
  public:
    PackedWriter(const WriterSetup& setup, const PackedImages& images)
        : SampleWriter(setup, [&](int view) { return spec_of(view, setup, images); }),
          images_(images),
          decode_(decode_of(setup, images)),
          reader_(setup.dataset, images.cache) {}

    void write(const SampleTask& task) override {
        SampleScratch& scratch = task.scratch;
        const bool kept = reader_.read(task.index, scratch.sample);
        task.clock.lap(Stage::read);
        fields_.check(scratch.sample);
        scratch.drawn = true;
        scratch.crops.resize(static_cast<std::size_t>(fields_.views()));
        for (int view = 0; view < fields_.views(); ++view) {
            if (!make_crop(view, task)) {
                make_pixels(view, task);
            }
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::all);
        if (!kept) {
            reader_.keep(task.index, scratch.sample);
        }
        for (int view = 0; view < fields_.views(); ++view) {
            const bool on_device = place_view(view, task);
            scratch.on_device = view == 0 ? on_device : scratch.on_device;
        }
    }
    SampleReader* reader() override { return &reader_; }
    // There may be memory for slots without crops.
    std::optional<ImageOptions> smaller() const override {
        return images_.shared ? std::optional<ImageOptions>(images_.as_bytes()) : std::nullopt;
    }

  protected:
    void clear_view(int view, const ItemPlace& place) const override {
        const DctCropSlot crops = slot(view, place);
        crops.set_nothing(place.item);
        if (images_.shared) {
            std::memset(pixels_in(crops, place), 0, decode_.image_bytes());
        }
    }

  private:
    DctCropSlot slot(int view, const ItemPlace& place) const { return place.batch.crop_slot(fields_.view_at(view)); }
    // The place that the sample's pixels have in a shared slot.
    std::byte* pixels_in(const DctCropSlot& crops, const ItemPlace& place) const {
        return crops.memory() + crops.pixels_at(place.item, decode_.image_bytes());
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
            to.own.resize(decode_.image_bytes());
            pixels.pixels.data = to.own.data();
            to.bytes = std::as_const(to.own).bytes();
        }
        transform_.run(task.scratch.sample, key_of_view(task.key, view), task.scratch.transform, pixels, task.clock);
        to.draw.reset();
    }

    // Takes capacity, which an item of the batch does once. So it comes after all that may make the sample a bad one:
    // where a crop could be made, so can the pixels. Returns true if the device makes the image.
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
        if (images_.shared) {
            crops.set_pixels(item, crops.pixels_at(item, decode_.image_bytes()), decode_.to);
            return false;
        }
        const std::size_t at = capacity.take_least();
        std::ranges::copy(image.bytes, crops.memory() + at);
        crops.set_pixels(item, at, decode_.to);
        return false;
    }

    const PackedImages images_;
    const DeferredDecode decode_;
    SampleReader reader_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_packed_writer(const WriterSetup& setup, const PackedImages& images) {
    require_assembled(setup.fields.image());
    return std::make_unique<PackedWriter>(setup, images);
}

}  // namespace stoker
