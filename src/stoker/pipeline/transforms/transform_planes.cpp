// The transform of images that run as float32 planes. Crops, a resize and flips are folded as for bytes, and only the
// part of raw pixels that they read is converted.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/float16.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/tiff.h"
#include "stoker/pipeline/transforms/run_on_planes.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

namespace {

// A rotated one is decoded like all others, to 8 bits.
bool is_deep_png(std::span<const std::byte> bytes, Decoder& decoder, bool exif) {
    if (sniff_codec(bytes) != Codec::png) {
        return false;
    }
    const ImageInfo info = decoder.info(bytes);
    return info.bits > 8 && !(exif && info.orientation != 1);
}

PlanesView next_planes(TransformScratch& scratch, int channels, int height, int width) {
    constexpr std::uint64_t kUnchecked = std::uint64_t{64} << 20;
    const std::uint64_t bytes = std::uint64_t{sizeof(float)} * static_cast<std::uint64_t>(channels) *
                                static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width);
    if (bytes > kUnchecked) {
        require_memory(bytes, "planes of an image");
    }
    scratch.current = 1 - scratch.current;
    return scratch.planes[scratch.current].reset(channels, height, width);
}

// Planes that an op may change: they are always in the current scratch.
PlanesView writable(ConstPlanesView image, TransformScratch& scratch) {
    const PlanesView current = scratch.planes[scratch.current].view();
    return {current.data + (image.data - current.data),
            image.channels,
            image.height,
            image.width,
            image.stride,
            image.step};
}

void change_values(PlanesView image, const auto& change) {
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            float* row = image.plane(c).row(y);
            std::transform(row, row + image.width, row, change);
        }
    }
}

// Runs an op that cannot be folded.
struct RunPlanesOp {
    ConstPlanesView image;
    PlaneValues& values;
    Rng& rng;
    TransformScratch& scratch;

    ConstPlanesView operator()(const CenterCrop& op) const {
        return padded(center_crop_box(image.height, image.width, op.height, op.width), PaddingMode::constant, {});
    }
    ConstPlanesView operator()(const RandomCrop& op) const {
        return padded(draw_random_crop(op, image.height, image.width, rng), op.mode, op.fill);
    }
    ConstPlanesView operator()(const PixelOp& op) const {
        const PlanesView pixels = writable(image, scratch);
        run_on_planes(op, pixels, values, rng, scratch.planes_copy);
        return pixels;
    }
    ConstPlanesView operator()(const SoundOp& op) const {
        const ConstPlanesView out = run_sound_op(op, writable(image, scratch), rng, scratch.sound);
        if (std::holds_alternative<MelOp>(op)) {  // the next op writes where this one read
            scratch.current = 1 - scratch.current;
            std::swap(scratch.planes[scratch.current], scratch.sound.spectrogram);
        }
        values = {};
        return out;
    }
    ConstPlanesView operator()(const ToFloat& op) const {
        const PlanesView pixels = writable(image, scratch);
        if (op.window) {
            const auto [low, high] = *op.window;
            change_values(pixels,
                          [low, high](float value) { return std::clamp((value - low) / (high - low), 0.0f, 1.0f); });
        } else if (op.scale) {
            change_values(pixels, [top = values.top](float value) { return value / top; });
        }
        values = {};
        return pixels;
    }
    ConstPlanesView operator()(const auto& /*op*/) const {
        throw InternalError(
            {.where = "transform", .expected = "an op that runs on planes", .got = "one that is always folded"});
    }

  private:
    ConstPlanesView padded(const Box& box, PaddingMode mode, const Color& fill) const {
        const PlanesView out = next_planes(scratch, image.channels, box.height, box.width);
        padded_crop_planes(image, box, mode, fill, values, out);
        return out;
    }
};

ConstPlanesView render(ConstPlanesView pixels, const Box& window, const Geometry& geometry, const PlaneValues& values,
                       TransformScratch& scratch) {
    if (geometry.is_crop()) {
        const Box& box = geometry.box();
        return pixels.crop({box.top - window.top, box.left - window.left, box.height, box.width});
    }
    const auto [height, width] = geometry.size();
    const PlanesView out = next_planes(scratch, pixels.channels, height, width);
    const Box& box = geometry.box();
    resize_planes(pixels, {window.top - box.top, window.left - box.left, window.height, window.width},
                  geometry.resizing(), values, out, scratch.planes_resize);
    return out;
}

// What `normalize` does to each channel: value * scale + bias, perhaps clipped to [0, 1].
struct ChannelFactors {
    float scale = 1;
    float bias = 0;
    bool clips = false;
};

ChannelFactors factors_of_own_range(const Normalize& op, ConstPlanesView image, std::vector<float>& sorted) {
    const auto [low, high] = op.by == NormalizeBy::min_max
                                 ? value_range(image)
                                 : quantiles(image, {op.percentiles[0] / 100, op.percentiles[1] / 100}, sorted);
    const float range = high > low ? high - low : 1;  // a constant image becomes 0
    return {.scale = 1 / range, .bias = -low / range, .clips = true};
}

std::vector<ChannelFactors> factors_of(const Normalize& op, ConstPlanesView image, const PlaneValues& values,
                                       std::vector<float>& sorted) {
    const auto channels = static_cast<std::size_t>(image.channels);
    std::vector<ChannelFactors> factors(channels);
    for (std::size_t c = 0; c < channels && op.by == NormalizeBy::mean_std; ++c) {
        const std::size_t at = op.channels == 0 ? 0 : c;
        factors[c] = {.scale = 1 / (values.top * op.std[at]), .bias = -op.mean[at] / op.std[at]};
    }
    if (op.by != NormalizeBy::mean_std && !op.channel_wise) {
        std::ranges::fill(factors, factors_of_own_range(op, image, sorted));
    } else if (op.by != NormalizeBy::mean_std) {
        for (int c = 0; c < image.channels; ++c) {
            factors[static_cast<std::size_t>(c)] = factors_of_own_range(op, image.only(c), sorted);
        }
    }
    return factors;
}

// Writes element i of the plane to out[i * step]. A constant `step` lets the loop be vectorised.
template <typename Step, typename Store>
void write_elements(ConstPlane plane, const ChannelFactors& factors, Step step, Store store) {
    std::ptrdiff_t at = 0;
    for (int y = 0; y < plane.height; ++y) {
        const float* row = plane.row(y);
        for (int x = 0; x < plane.width; ++x, at += step) {
            const float value = row[x] * factors.scale + factors.bias;
            store(at, factors.clips ? std::clamp(value, 0.0f, 1.0f) : value);
        }
    }
}

template <typename Store>
void write_plane(ConstPlane plane, const ChannelFactors& factors, std::ptrdiff_t step, Store store) {
    if (step == 1) {
        write_elements(plane, factors, std::integral_constant<std::ptrdiff_t, 1>(), store);
    } else {
        write_elements(plane, factors, step, store);
    }
}

void write_plane(ConstPlane plane, const ChannelFactors& factors, const PixelTarget& target, std::ptrdiff_t first,
                 std::ptrdiff_t step) {
    if (target.dtype == DType::float32) {
        float* const out = reinterpret_cast<float*>(target.data) + first;
        write_plane(plane, factors, step, [out](std::ptrdiff_t at, float value) { out[at] = value; });
        return;
    }
    auto* const out = reinterpret_cast<std::uint16_t*>(target.data) + first;
    if (target.dtype == DType::float16) {
        write_plane(plane, factors, step, [out](std::ptrdiff_t at, float value) { out[at] = to_float16(value); });
    } else {
        write_plane(plane, factors, step, [out](std::ptrdiff_t at, float value) { out[at] = to_bfloat16(value); });
    }
}

}  // namespace

bool is_deep(const FieldValue& image) {
    if (!image.encoded || !is_tiff(image.bytes)) {
        return image.is_deep();
    }
    const TiffImage tiff = read_tiff_header(image.bytes, {.page = image.page});
    return tiff.dtype != DType::uint8 || tiff.channels > kMaxByteChannels;
}

const FieldValue& Transform::with_array(const FieldValue& image, TransformScratch& scratch) const {
    if (!image.encoded || !is_tiff(image.bytes)) {
        return image;
    }
    FieldValue& array = scratch.array;
    const TiffImage tiff =
        decode_tiff(image.bytes, array.storage, {.channels = options_.channels == 1 ? 1 : 3, .page = image.page});
    array.set_raw(array.storage.bytes(), tiff.height, tiff.width, tiff.channels);
    array.dtype = tiff.dtype;
    return array;
}

bool Transform::takes_planes(const FieldValue& image, TransformScratch& scratch) const {
    return needs_planes_ || stoker::is_deep(image) ||
           (image.encoded && !find_for_bytes() && is_deep_png(image.bytes, scratch.decoder, options_.exif));
}

std::optional<std::size_t> Transform::find_for_bytes() const {
    const auto found = std::ranges::find_if(ops_, [](const Op& op) {
        const auto* const pixels = std::get_if<PixelOp>(&op);
        return pixels != nullptr && is_for_bytes(*pixels);
    });
    return found == ops_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - ops_.begin()));
}

// The part `box` of a PNG of 16 bits.
PlanesView Transform::decode_deep(const FieldValue& stored, const Box& box, TransformScratch& scratch) const {
    const PlanesView planes = next_planes(scratch, options_.channels == 1 ? 1 : 3, box.height, box.width);
    scratch.decoder.decode_deep(stored.bytes, [&](int y, const std::uint8_t* row) {
        if (y >= box.top && y < box.top + box.height) {
            load_rgba_row(row + std::ptrdiff_t{8} * box.left, y - box.top, planes);
        }
    });
    return planes;
}

Transform::DeepImage Transform::load_planes(const FieldValue& given, const RngKey& key, TransformScratch& scratch,
                                            StageClock& clock) const {
    const FieldValue& stored = with_array(given, scratch);
    DeepImage image;
    const auto fold_from = [&](ImageSize size) {
        scratch.input = size;
        image.geometry = Geometry(size);
        image.next = fold(image.geometry, 0, ops_.size(), key, scratch);
        image.window = image.geometry.reads();
    };
    if (stored.encoded && is_deep_png(stored.bytes, scratch.decoder, options_.exif)) {
        const ImageInfo info = scratch.decoder.info(stored.bytes);
        fold_from({info.height, info.width});
        image.values = plane_values(DType::uint16);
        image.pixels = decode_deep(stored, image.window, scratch);
        clock.lap(Stage::pixels);
        return image;
    }
    if (stored.encoded) {
        const PartialImage bytes = decode(stored, ops_.size(), key, scratch, clock);
        image.values = plane_values(DType::uint8);
        image.geometry = bytes.geometry;
        image.next = bytes.next;
        image.window = image.geometry.reads();
        const Box& part = image.window;
        const PlanesView planes = next_planes(scratch, bytes.pixels.channels, part.height, part.width);
        load_pixels(
            bytes.pixels.crop({part.top - bytes.window.top, part.left - bytes.window.left, part.height, part.width}),
            planes);
        image.pixels = planes;
        return image;
    }
    if (stored.height < 1 || stored.width < 1 || stored.channels < 1 || stored.channels > kMaxChannels) {
        throw DataError({}, {.where = "raw pixels",
                             .expected = fmt::format("at least 1 x 1 pixels of 1 to {} channels", kMaxChannels),
                             .got = fmt::format("{} x {} x {}", stored.height, stored.width, stored.channels)});
    }
    fold_from({stored.height, stored.width});
    image.values = plane_values(stored.dtype.value_or(DType::uint8));
    const int channels = makes_rgb(stored.channels) ? 3 : stored.channels;
    const PlanesView part = next_planes(scratch, channels, image.window.height, image.window.width);
    load_pixels(stored, image.window, stored.channels == channels ? part : part.only(0));
    for (int c = stored.channels; c < channels; ++c) {
        std::copy_n(part.data, part.step, part.plane(c).row(0));
    }
    image.pixels = part;
    clock.lap(Stage::pixels);
    return image;
}

Transform::DeepImage Transform::run_planes(const FieldValue& stored, const RngKey& key, TransformScratch& scratch,
                                           StageClock& clock) const {
    if (const auto found = find_for_bytes()) {
        throw InvalidArgument({.where = "ops",
                               .expected = "ops that images of other types than bytes have",
                               .got = fmt::format("op {}, which is your own, for bytes", *found + 1),
                               .hint = "leave it out, or store the images as uint8"});
    }
    DeepImage image = load_planes(stored, key, scratch, clock);
    const auto begin_at = [&](ConstPlanesView pixels, std::size_t next) {
        image.pixels = pixels;
        image.window = {0, 0, pixels.height, pixels.width};
        image.geometry = Geometry({pixels.height, pixels.width});
        image.next = fold(image.geometry, next, ops_.size(), key, scratch);
    };
    while (image.next < ops_.size()) {
        const std::size_t op = image.next;
        begin_at(render(image.pixels, image.window, image.geometry, image.values, scratch), op);
        if (image.next == op) {
            RngKey op_key = key;
            op_key.op = static_cast<std::uint16_t>(op);
            Rng rng(op_key);
            begin_at(std::visit(RunPlanesOp{image.pixels, image.values, rng, scratch}, ops_[op]), op + 1);
        }
    }
    image.pixels = render(image.pixels, image.window, image.geometry, image.values, scratch);
    return image;
}

ConstImageView Transform::picture(const FieldValue& image, const RngKey& key, TransformScratch& scratch,
                                  StageClock& clock) const {
    if (!needs_planes_ && !stoker::is_deep(image)) {
        const ConstImageView prepared = prepare(image, scratch, clock);
        const ImageSize input = scratch.input;
        const ConstImageView pixels = augment(prepared, key, scratch);
        scratch.input = input;
        return pixels;
    }
    ConstPlanesView planes = run_planes(image, key, scratch, clock).pixels;
    planes.channels = planes.channels > 2 ? 3 : 1;
    const auto [low, high] = value_range(planes);
    const float scale = high > low ? 255 / (high - low) : 0;
    const ImageView out = next_scratch(scratch, planes.height, planes.width, planes.channels);
    for (int c = 0; c < planes.channels; ++c) {
        write_plane(planes.plane(c), {.scale = scale, .bias = -low * scale}, planes.channels,
                    [to = out.data + c](std::ptrdiff_t at, float value) {
                        to[at] = value > 0 ? static_cast<std::uint8_t>(std::min(value + 0.5f, 255.0f)) : 0;  // or NaN
                    });
    }
    return out;
}

ConstPlanesView Transform::planes(const FieldValue& image, const RngKey& key, TransformScratch& scratch,
                                  StageClock& clock) const {
    return run_planes(image, key, scratch, clock).pixels;
}

namespace {

void write_all(ConstPlanesView pixels, std::span<const ChannelFactors> factors, const ImageSlot& slot) {
    require_size(slot, pixels.channels, {pixels.height, pixels.width});
    const std::ptrdiff_t area = std::ptrdiff_t{pixels.height} * pixels.width;
    const bool planar = slot.pixels.layout == Layout::chw;
    for (int c = 0; c < pixels.channels; ++c) {
        write_plane(pixels.plane(c), factors[static_cast<std::size_t>(c)], slot.pixels, planar ? c * area : c,
                    planar ? 1 : pixels.channels);
    }
}

}  // namespace

void Transform::write_planes(const DeepImage& image, TransformScratch& scratch, const ImageSlot& slot) const {
    write_all(image.pixels, factors_of(normalize_, image.pixels, image.values, scratch.sorted), slot);
}

// The range is that of all frames.
void Transform::run_clip_of_own_range(const FieldValue& clip, const RngKey& key, TransformScratch& scratch,
                                      const ImageSlot& slot, StageClock& clock) const {
    const PlanesView all = scratch.clip.reset(slot.channels, slot.frames * slot.height, slot.width);
    const auto part = [&](int frame) { return Box{frame * slot.height, 0, slot.height, slot.width}; };
    int frame = 0;
    std::optional<ImageSize> first;
    for_frames(clip, slot, [&](const FieldValue& image, const ImageSlot& place) {
        const ConstPlanesView pixels = run_planes(image, key, scratch, clock).pixels;
        require_one_size(scratch.input, first);
        require_size(place, pixels.channels, {pixels.height, pixels.width});
        const Box to = part(frame++);
        for (int c = 0; c < pixels.channels; ++c) {
            for (int y = 0; y < pixels.height; ++y) {
                std::copy_n(pixels.plane(c).row(y), pixels.width, all.plane(c).row(to.top + y));
            }
        }
    });
    const std::vector<ChannelFactors> factors = factors_of(normalize_, all, {}, scratch.sorted);
    for (frame = 0; frame < slot.frames; ++frame) {
        write_all(ConstPlanesView(all).crop(part(frame)), factors, slot.frame(frame));
    }
}

}  // namespace stoker
