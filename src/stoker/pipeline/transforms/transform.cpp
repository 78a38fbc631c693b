// Folds ops into a geometry. If an op cannot be folded, the pixels are rendered and folding starts again from them.
// Crops are views; other ops write into the scratch image that they do not read.
#include "stoker/pipeline/transforms/transform.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/codecs/tiff.h"
#include "stoker/ops/grayscale.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/pipeline/transforms/overlay.h"

namespace stoker {
namespace {

bool is_random(const Op& op) {
    if (const auto* const sound = std::get_if<SoundOp>(&op)) {
        return stoker::is_random(*sound);
    }
    if (const auto* const aspect = std::get_if<AspectCropOp>(&op)) {  // several sizes: it depends on the batch
        return aspect->crop.random || aspect->sizes.size() > 1;
    }
    return !std::holds_alternative<Resize>(op) && !std::holds_alternative<CenterCrop>(op) &&
           !std::holds_alternative<Normalize>(op) && !std::holds_alternative<ToFloat>(op);
}

void check_pixels(ImageSize size, ImageSize from) {
    if (size != from && std::int64_t{size.height} * size.width > kMaxPixels) {
        throw DataError({}, {.where = "resize",
                             .expected = fmt::format("at most {} pixels", kMaxPixels),
                             .got = fmt::format("{} x {}, from an image of {} x {}", size.height, size.width,
                                                from.height, from.width)});
    }
}

// Adds one op to the geometry. Returns false if the pixels must be rendered first; the op then runs on them with the
// same random parameters.
struct FoldOp {
    Geometry& geometry;
    Rng& rng;
    const std::optional<ImageSize>& batch_size;

    bool operator()(const Resize& op) const {
        return geometry.resize(target_size(op, geometry.size()), op.interpolation);
    }
    bool operator()(const CenterCrop& op) const {
        const auto [height, width] = geometry.size();
        return geometry.crop(center_crop_box(height, width, op.height, op.width));
    }
    bool operator()(const RandomResizedCrop& op) const {
        const auto [height, width] = geometry.size();
        check_pixels({op.height, op.width}, {height, width});
        return geometry.can_resize() && geometry.crop(draw_random_resized_crop(op, height, width, rng)) &&
               geometry.resize({op.height, op.width}, draw_interpolation(op, rng));
    }
    bool operator()(const AspectCropOp& op) const {
        const ImageSize image = geometry.size();
        const ImageSize to = op.size_for(image, batch_size);
        check_pixels(to, image);
        return geometry.can_resize() && geometry.crop(draw_aspect_crop(op.crop, image, to, rng)) &&
               geometry.resize(to, op.crop.interpolation);
    }
    bool operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            geometry.flip();
        }
        return true;
    }
    bool operator()(const RandomCrop& op) const {
        const auto [height, width] = geometry.size();
        return geometry.crop(draw_random_crop(op, height, width, rng));
    }
    bool operator()(const PixelOp& op) const { return !changes_pixels(op, geometry.size(), rng); }
    bool operator()(const Normalize& /*op*/) const { return false; }
    bool operator()(const ToFloat& /*op*/) const { return false; }
    bool operator()(const SoundOp& /*op*/) const { return false; }
};

// The image as writable pixels. Unless it is in the current scratch image, it is copied there: it may be in the data
// set or in a cache, which must not change.
ImageView writable(ConstImageView image, bool in_scratch, TransformScratch& scratch) {
    if (in_scratch) {
        const ImageView current = scratch.pixels[scratch.current].view();
        return {current.data + (image.data - current.data), image.height, image.width, image.channels, image.stride};
    }
    const ImageView copy = next_scratch(scratch, image.height, image.width, image.channels);
    copy_pixels(image, copy);
    return copy;
}

// Runs an op that cannot be folded. `in_scratch`: the pixels are in the current scratch image.
struct RunOp {
    ConstImageView image;
    bool in_scratch;
    Rng& rng;
    TransformScratch& scratch;

    ConstImageView operator()(const CenterCrop& op) const {
        const ImageView out = next_scratch(scratch, op.height, op.width, image.channels);
        const Box box = center_crop_box(image.height, image.width, op.height, op.width);
        padded_crop(image, box, PaddingMode::constant, {}, out);
        return out;
    }
    ConstImageView operator()(const RandomCrop& op) const {
        const ImageView out = next_scratch(scratch, op.height, op.width, image.channels);
        padded_crop(image, draw_random_crop(op, image.height, image.width, rng), op.mode, op.fill, out);
        return out;
    }
    ConstImageView operator()(const PixelOp& op) const {
        const ImageView pixels = writable(image, in_scratch, scratch);
        run_pixel_op(op, pixels, rng, scratch.original);
        return pixels;
    }
    ConstImageView operator()(const auto& /*op*/) const {
        throw InternalError(
            {.where = "transform", .expected = "an op that runs on pixels", .got = "one that is always folded"});
    }
};

ConstImageView pixels_of(const FieldValue& value) {
    const ConstImageView image{reinterpret_cast<const std::uint8_t*>(value.bytes.data()), value.height, value.width,
                               value.channels, std::ptrdiff_t{value.width} * value.channels};
    if (value.is_deep()) {
        throw DataError({}, {.where = "raw pixels",
                             .expected = "uint8 of 1 to 4 channels",
                             .got = fmt::format("{} of {} channels", dtype_name(value.dtype.value_or(DType::uint8)),
                                                value.channels)});
    }
    if (image.height < 1 || image.width < 1 || image.channels < 1 || image.channels > 4) {
        throw DataError({}, {.where = "raw pixels",
                             .expected = "at least 1 x 1 pixels of 1 to 4 channels",
                             .got = fmt::format("{} x {} x {}", image.height, image.width, image.channels)});
    }
    const std::size_t bytes = image.row_bytes() * static_cast<std::size_t>(image.height);
    if (value.bytes.size() != bytes) {
        throw DataError(
            {}, {.where = "raw pixels",
                 .expected = fmt::format("{} bytes for {} x {} x {}", bytes, value.height, value.width, value.channels),
                 .got = fmt::to_string(value.bytes.size())});
    }
    return image;
}

// `pixels` are the part `window` of the geometry's input.
void resize_into(ConstImageView pixels, const Box& window, const Geometry& geometry, const NormalizeFactors& factors,
                 const PixelTarget& target, ResizeScratch& scratch) {
    const Box reads = geometry.reads();
    const Box& box = geometry.box();
    resize_normalize(pixels.crop({reads.top - window.top, reads.left - window.left, reads.height, reads.width}),
                     {reads.top - box.top, reads.left - box.left, reads.height, reads.width}, geometry.resizing(),
                     factors, target, scratch);
}

// The output of the geometry.
ConstImageView render(ConstImageView pixels, const Box& window, const Geometry& geometry, TransformScratch& scratch) {
    if (geometry.is_crop()) {
        const Box& box = geometry.box();
        return pixels.crop({box.top - window.top, box.left - window.left, box.height, box.width});
    }
    const auto [height, width] = geometry.size();
    const ImageView out = next_scratch(scratch, height, width, pixels.channels);
    resize_into(pixels, window, geometry, {},
                {.data = reinterpret_cast<std::byte*>(out.data), .dtype = DType::uint8, .layout = Layout::hwc},
                scratch.resize);
    return out;
}

ConstImageView with_classes(ConstImageView mask, const MaskClasses& classes, TransformScratch& scratch) {
    const ImageView out = next_scratch(scratch, mask.height, mask.width, 1);
    for (int y = 0; y < mask.height; ++y) {
        std::transform(mask.row(y), mask.row(y) + mask.width, out.row(y),
                       [&](std::uint8_t value) { return classes[value]; });
    }
    return out;
}

// The first of a decoder's three equal channels, in the same memory.
ImageView first_channel(ImageView image) {
    const std::ptrdiff_t row = image.width;
    for (int y = 0; y < image.height; ++y) {
        std::uint8_t* to = image.data + y * row;
        const std::uint8_t* from = image.row(y);
        for (std::ptrdiff_t x = 0; x < row; ++x) {
            to[x] = from[x * image.channels];
        }
    }
    return {image.data, image.height, image.width, 1, row};
}

// Three equal channels of one, in `copy`.
ConstImageView three_channels(ConstImageView grey, Image& copy) {
    copy.reset(grey.height, grey.width, 3);
    for (int y = 0; y < grey.height; ++y) {
        const std::uint8_t* from = grey.row(y);
        std::uint8_t* to = copy.view().row(y);
        for (std::ptrdiff_t x = 0; x < grey.width; ++x) {
            std::fill_n(to + 3 * x, 3, from[x]);
        }
    }
    return copy.view();
}

}  // namespace

ImageView next_scratch(TransformScratch& scratch, int height, int width, int channels) {
    scratch.current = 1 - scratch.current;
    Image& image = scratch.pixels[scratch.current];
    image.reset(height, width, channels);
    return image.view();
}

ImageSize target_size(const Resize& op, ImageSize from) {
    const ImageSize size = op.size ? *op.size : resized_size(from.height, from.width, op.shorter);
    check_pixels(size, from);
    return size;
}

void require_size(const ImageSlot& slot, int channels, ImageSize size) {
    if (channels != slot.channels || size.height != slot.height || size.width != slot.width) {
        throw SizeMismatch({}, {.where = "image",
                                .expected = fmt::format("{} x {} x {}{}", slot.channels, slot.height, slot.width,
                                                        slot.given ? "" : " (channels, height, width), as of sample 0"),
                                .got = fmt::format("{} x {} x {}", channels, size.height, size.width),
                                .hint = channels != slot.channels
                                            ? "all images must have as many channels"
                                            : "add an op that gives all images the same size, such as center_crop or "
                                              "resize with size = [height, width]"});
    }
}

TransformOptions transform_options(const DataRecipe& recipe) {
    return {.exif = recipe.exif,
            .first_frame = recipe.first_frame,
            .decode = recipe.decode == "fast" ? DecodeMode::fast : DecodeMode::exact,
            .channels = recipe.channels.value_or(0),
            .sample_rate = static_cast<int>(recipe.sample_rate)};
}

Transform::Transform(const std::vector<OpSpec>& specs, const TransformOptions& options)
    : Transform(specs, options, {}) {}

Transform::Transform(const std::vector<OpSpec>& specs, const TransformOptions& options, std::vector<OpColor> colors)
    : Transform(make_ops(specs, &colors), options) {
    colors_ = std::move(colors);
    if (!specs.empty()) {
        last_op_ = specs.back().where;
    }
}

Transform::Transform(std::vector<Op> ops, const TransformOptions& options) : ops_(std::move(ops)), options_(options) {
    Normalize last;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (const auto* normalize_op = std::get_if<Normalize>(&ops_[i])) {
            if (i + 1 != ops_.size()) {
                throw InvalidArgument({.where = "ops",
                                       .expected = "normalize to be the last op",
                                       .got = fmt::format("op {} of {}", i + 1, ops_.size()),
                                       .hint = "move it to the end of the list"});
            }
            last = *normalize_op;
        } else if (auto* const sound = std::get_if<SoundOp>(&ops_[i])) {
            set_sample_rate(*sound, options_.sample_rate);
        }
    }
    factors_ = normalize_factors(last);
    normalize_ = last;
    needs_planes_ = last.by != NormalizeBy::mean_std || std::ranges::any_of(ops_, [](const Op& op) {
                        return std::holds_alternative<ToFloat>(op) || std::holds_alternative<SoundOp>(op);
                    });
    if (!ops_.empty() && std::holds_alternative<Normalize>(ops_.back())) {
        ops_.pop_back();
    }
    while (deterministic_ < ops_.size() && !is_random(ops_[deterministic_])) {
        ++deterministic_;
    }
}

void Transform::require_channels(int channels) const {
    if (normalize_.channels != 0 && normalize_.channels != channels) {
        throw InvalidArgument(
            {.where = last_op_,
             .expected = fmt::format("normalize with a mean and a std for the {} of the images, or with one for all",
                                     pluralize(channels, "channel")),
             .got = fmt::format("values for {}", normalize_.channels)});
    }
    for (const OpColor& color : colors_) {
        if (color.values != static_cast<std::size_t>(channels)) {
            throw InvalidArgument({.where = color.where,
                                   .expected = fmt::format("a colour of one value, or of one for each of the {} of "
                                                           "the images",
                                                           pluralize(channels, "channel")),
                                   .got = fmt::format("{} values", color.values)});
        }
    }
}

ImageSize Transform::input_size(const FieldValue& image, TransformScratch& scratch) const {
    if (!image.frames.empty() || (!image.encoded && (image.height < 1 || image.width < 1))) {
        throw DataError({}, {.where = "image", .expected = "one image", .got = "a clip, or an image without pixels"});
    }
    if (!image.encoded) {
        return {image.height, image.width};
    }
    if (is_tiff(image.bytes)) {
        const TiffImage tiff = read_tiff_header(image.bytes, {.page = image.page});
        return {tiff.height, tiff.width};
    }
    const ImageInfo info = scratch.decoder.info(image.bytes);
    const bool turned = options_.exif && info.orientation > 4;
    return turned ? ImageSize{info.width, info.height} : ImageSize{info.height, info.width};
}

void Transform::run(const FieldValue& stored, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot,
                    StageClock& clock) const {
    if (slot.frames > 0 || !stored.frames.empty()) {
        run_clip(stored, key, scratch, slot, clock);
        return;
    }
    if (slot.planes) {
        write_planes(run_planes(stored, key, scratch, clock), scratch, slot);
        return;
    }
    PartialImage image = decode(stored, ops_.size(), key, scratch, clock, &slot);
    if (!image.written) {
        run_unfolded(image, ops_.size(), key, scratch);
        write(image, scratch, slot);
    }
}

ConstImageView Transform::prepare(const FieldValue& stored, TransformScratch& scratch, StageClock& clock) const {
    PartialImage image = decode(stored, deterministic_, {}, scratch, clock);
    run_unfolded(image, deterministic_, {}, scratch);
    return render(image.pixels, image.window, image.geometry, scratch);
}

void Transform::run(ConstImageView prepared, const RngKey& key, TransformScratch& scratch,
                    const ImageSlot& slot) const {
    scratch.input = {prepared.height, prepared.width};
    PartialImage image = begin(prepared, deterministic_, ops_.size(), key, scratch);
    run_unfolded(image, ops_.size(), key, scratch);
    write(image, scratch, slot);
}

ConstImageView Transform::augment(ConstImageView prepared, const RngKey& key, TransformScratch& scratch) const {
    scratch.input = {prepared.height, prepared.width};
    PartialImage image = begin(prepared, deterministic_, ops_.size(), key, scratch);
    run_unfolded(image, ops_.size(), key, scratch);
    return render(image.pixels, image.window, image.geometry, scratch);
}

std::optional<MaskClasses> mask_classes(std::span<const std::int64_t> values) {
    constexpr std::uint8_t kIgnored = 255;
    if (values.empty()) {
        return std::nullopt;
    }
    MaskClasses classes;
    classes.fill(kIgnored);
    for (std::size_t i = 0; i < values.size(); ++i) {
        classes[static_cast<std::size_t>(values[i])] = static_cast<std::uint8_t>(i);
    }
    return classes;
}

ConstImageView Transform::mask(const FieldValue& mask, ImageSize image, OpRange range, const RngKey& key,
                               TransformScratch& scratch, StageClock& clock, const MaskClasses* classes) const {
    ConstImageView pixels;
    if (mask.encoded && is_tiff(mask.bytes)) {
        const TiffImage tiff = decode_tiff(mask.bytes, scratch.array.storage, {.indices = true, .page = mask.page});
        pixels = {reinterpret_cast<const std::uint8_t*>(scratch.array.storage.data()), tiff.height, tiff.width, 1,
                  tiff.width};
    } else if (mask.encoded) {
        ImageSink sink(scratch.decoded);
        scratch.decoder.decode(mask.bytes, sink, {.indices = true});
        pixels = first_channel(scratch.decoded.view());
    } else {
        pixels = pixels_of(mask);
        if (pixels.channels != 1) {
            throw DataError({}, {.where = "mask",
                                 .expected = "one channel of class indices",
                                 .got = fmt::format("{} channels", pixels.channels)});
        }
    }
    if (ImageSize{pixels.height, pixels.width} != image) {
        throw DataError({}, {.where = "mask",
                             .expected = fmt::format("the image's {} x {} pixels", image.height, image.width),
                             .got = fmt::format("{} x {}", pixels.height, pixels.width)});
    }
    if (classes != nullptr && range != OpRange::remaining) {  // else it has them already
        pixels = with_classes(pixels, *classes, scratch);
    }
    clock.lap(Stage::pixels);
    return run_on_mask(slice(range), key, pixels, scratch);
}

void Transform::boxes(std::span<float> boxes, ImageSize image, OpRange range, const RngKey& key,
                      const std::optional<ImageSize>& batch_size) const {
    run_on_boxes(slice(range), key, image, boxes, batch_size);
}

OpSlice Transform::slice(OpRange range) const {
    return {.ops = ops_,
            .begin = range == OpRange::remaining ? deterministic_ : 0,
            .end = range == OpRange::prepared ? deterministic_ : ops_.size()};
}

// With a slot, a strong shrink is written to it while the image is decoded.
Transform::PartialImage Transform::decode(const FieldValue& given, std::size_t end, const RngKey& key,
                                          TransformScratch& scratch, StageClock& clock, const ImageSlot* slot) const {
    const FieldValue& stored = with_array(given, scratch);
    if (&stored != &given) {
        clock.lap(Stage::pixels);
    }
    if (!stored.encoded) {
        ConstImageView pixels = pixels_of(stored);
        if (makes_rgb(pixels.channels)) {
            pixels = three_channels(pixels, scratch.decoded);
            clock.lap(Stage::pixels);
        }
        scratch.input = {pixels.height, pixels.width};
        return begin(pixels, 0, end, key, scratch);
    }
    PartialImage image;
    const auto fold_ops = [&](ImageSize size) {
        scratch.input = size;
        Geometry geometry(size);
        image.next = fold(geometry, 0, end, key, scratch);
        return geometry;
    };
    const auto begin_stream = [&](const Geometry& geometry, const Box& window, int channels) {
        const Box& box = geometry.box();
        return slot != nullptr && image.next == end && options_.channels != 1 && channels == slot->channels &&
               geometry.size() == ImageSize{slot->height, slot->width} &&
               scratch.stream.begin({window.top - box.top, window.left - box.left, window.height, window.width},
                                    channels, geometry.resizing(), factors_, slot->pixels, scratch.resize);
    };
    RegionSink sink(fold_ops, options_.decode, scratch.decoded, begin_stream, scratch.stream);
    scratch.stream.take_time();  // of an image that failed
    scratch.decoder.decode(stored.bytes, sink, {.exif = options_.exif, .first_frame = options_.first_frame});
    image.written = sink.streams();
    if (!image.written) {
        const ImageView decoded = scratch.decoded.view();
        image.pixels = options_.channels == 1 ? luma(decoded) : decoded;
    }
    image.window = sink.window();
    image.geometry = sink.geometry();
    clock.lap(Stage::pixels);
    clock.move(Stage::pixels, Stage::entropy, scratch.decoder.take_entropy_time());
    clock.move(Stage::pixels, Stage::augment, scratch.stream.take_time());
    return image;
}

Transform::PartialImage Transform::begin(ConstImageView image, std::size_t next, std::size_t end, const RngKey& key,
                                         const TransformScratch& scratch) const {
    PartialImage partial{image, {0, 0, image.height, image.width}, Geometry({image.height, image.width}), next};
    partial.next = fold(partial.geometry, next, end, key, scratch);
    return partial;
}

// Folds ops from `next` on. Returns the first that cannot be folded, or `end`.
std::size_t Transform::fold(Geometry& geometry, std::size_t next, std::size_t end, RngKey key,
                            const TransformScratch& scratch) const {
    for (; next < end; ++next) {
        key.op = static_cast<std::uint16_t>(next);
        Rng rng(key);
        if (!std::visit(FoldOp{geometry, rng, scratch.batch_size}, ops_[next])) {
            break;
        }
    }
    return next;
}

// Renders the pixels and runs the op that cannot be folded, until all remaining ops are folded.
void Transform::run_unfolded(PartialImage& image, std::size_t end, const RngKey& key, TransformScratch& scratch) const {
    bool in_scratch = false;
    while (image.next < end) {
        const std::size_t op = image.next;
        in_scratch = in_scratch || !image.geometry.is_crop();
        image = begin(render(image.pixels, image.window, image.geometry, scratch), op, end, key, scratch);
        if (image.next == op) {
            RngKey op_key = key;
            op_key.op = static_cast<std::uint16_t>(op);
            Rng rng(op_key);
            const ConstImageView pixels = std::visit(RunOp{image.pixels, in_scratch, rng, scratch}, ops_[op]);
            image = begin(pixels, op + 1, end, key, scratch);
            in_scratch = true;
        }
    }
}

void Transform::write(const PartialImage& image, TransformScratch& scratch, const ImageSlot& slot) const {
    require_size(slot, image.pixels.channels, image.geometry.size());
    resize_into(image.pixels, image.window, image.geometry, factors_, slot.pixels, scratch.resize);
}

}  // namespace stoker
