// Runs ops one after the other on uint8 pixels. Crops are views; what changes pixels writes into
// the scratch image that it does not read from.
#include "stoker/pipeline/transform.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/op_table.h"

namespace stoker {
namespace {

bool is_random(const Op& op) {
    return std::holds_alternative<RandomResizedCrop>(op) || std::holds_alternative<HorizontalFlip>(op);
}

ImageView next_scratch(TransformScratch& scratch, int height, int width, int channels) {
    scratch.used = 1 - scratch.used;
    Image& image = scratch.pixels[scratch.used];
    image.reset(height, width, channels);
    return image.view();
}

ConstImageView resized(ConstImageView image, ImageSize size, TransformScratch& scratch) {
    if (size == ImageSize{image.height, image.width}) {
        return image;
    }
    if (std::int64_t{size.height} * size.width > kMaxPixels) {
        throw DataError({}, {.where = "resize",
                             .expected = fmt::format("at most {} pixels", kMaxPixels),
                             .got = fmt::format("{} x {}, from an image of {} x {}", size.height, size.width,
                                                image.height, image.width)});
    }
    const ImageView out = next_scratch(scratch, size.height, size.width, image.channels);
    resize(image, out, scratch.resize);
    return out;
}

ConstImageView cropped(ConstImageView image, const Box& box, TransformScratch& scratch) {
    const bool inside =
        box.top >= 0 && box.left >= 0 && box.top + box.height <= image.height && box.left + box.width <= image.width;
    if (inside) {
        return image.crop(box);
    }
    const ImageView out = next_scratch(scratch, box.height, box.width, image.channels);
    crop_padded(image, box, out);
    return out;
}

}  // namespace

Transform::Transform(const std::vector<OpSpec>& specs, bool exif) : Transform(make_ops(specs), exif) {}

Transform::Transform(std::vector<Op> ops, bool exif) : ops_(std::move(ops)), exif_(exif) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (const auto* normalize_op = std::get_if<Normalize>(&ops_[i])) {
            if (i + 1 != ops_.size()) {
                throw InvalidArgument({.where = "ops",
                                       .expected = "normalize to be the last op",
                                       .got = fmt::format("it as number {} of {}", i + 1, ops_.size())});
            }
            normalize_ = *normalize_op;
        }
    }
    if (!ops_.empty() && std::holds_alternative<Normalize>(ops_.back())) {
        ops_.pop_back();
    }
    while (fixed_ < ops_.size() && !is_random(ops_[fixed_])) {
        ++fixed_;
    }
}

ConstImageView Transform::prepare(const Sample& sample, TransformScratch& scratch, StageClock& clock) const {
    ConstImageView image;
    if (sample.encoded) {
        ImageSink sink(scratch.decoded);
        scratch.decoder.decode(sample.bytes, sink, {.exif = exif_});
        image = scratch.decoded.view();
        clock.lap(Stage::decode);
    } else {
        image = {reinterpret_cast<const std::uint8_t*>(sample.bytes.data()), sample.height, sample.width,
                 sample.channels, std::ptrdiff_t{sample.width} * sample.channels};
        if (image.height < 1 || image.width < 1 || image.channels < 1 || image.channels > 4) {
            throw DataError({}, {.where = "raw pixels",
                                 .expected = "at least 1 x 1 pixels of 1 to 4 channels",
                                 .got = fmt::format("{} x {} x {}", image.height, image.width, image.channels)});
        }
        if (sample.bytes.size() != image.row_bytes() * static_cast<std::size_t>(image.height)) {
            throw DataError({}, {.where = "raw pixels",
                                 .expected = fmt::format("{} bytes for {} x {} x {}",
                                                         image.row_bytes() * static_cast<std::size_t>(image.height),
                                                         sample.height, sample.width, sample.channels),
                                 .got = fmt::to_string(sample.bytes.size())});
        }
    }
    Rng unused({});
    for (std::size_t i = 0; i < fixed_; ++i) {
        image = run(ops_[i], image, unused, scratch);
    }
    return image;
}

ConstImageView Transform::augment(ConstImageView image, RngKey key, TransformScratch& scratch) const {
    for (std::size_t i = fixed_; i < ops_.size(); ++i) {
        key.op = static_cast<std::uint16_t>(i);
        Rng rng(key);
        image = run(ops_[i], image, rng, scratch);
    }
    return image;
}

void Transform::write(ConstImageView image, Layout layout, float* out) const {
    normalize(image, normalize_, layout, out);
}

ConstImageView Transform::run(const Op& op, ConstImageView image, Rng& rng, TransformScratch& scratch) const {
    if (const auto* resize_op = std::get_if<Resize>(&op)) {
        return resized(image,
                       resize_op->size ? *resize_op->size : resized_size(image.height, image.width, resize_op->shorter),
                       scratch);
    }
    if (const auto* crop = std::get_if<CenterCrop>(&op)) {
        return cropped(image, center_crop_box(image.height, image.width, crop->height, crop->width), scratch);
    }
    if (const auto* crop = std::get_if<RandomResizedCrop>(&op)) {
        const Box box = draw_random_resized_crop(*crop, image.height, image.width, rng);
        return resized(image.crop(box), {crop->height, crop->width}, scratch);
    }
    if (const auto* flip = std::get_if<HorizontalFlip>(&op)) {
        if (!draw_horizontal_flip(*flip, rng)) {
            return image;
        }
        // The image may lie in the source or a cache, which must not change: mirror a copy.
        const ImageView out = next_scratch(scratch, image.height, image.width, image.channels);
        copy_pixels(image, out);
        horizontal_flip(out);
        return out;
    }
    throw InternalError({.where = "transform", .expected = "an op that runs on pixels", .got = "another"});
}

}  // namespace stoker
