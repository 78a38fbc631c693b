#include "stoker/pipeline/transforms/device_ops.h"

#include <string>
#include <utility>

#include "stoker/codecs/dct/dct.h"

namespace stoker {
namespace {

// Which colour changes, crops and flips have a place behind the ops before them. Each call returns why not; empty: it
// has one. A flip may follow a change of colours: it moves pixels without changing their sum. A crop may not, as the
// contrast's mean is that of all pixels.
class OutputPlaces {
  public:
    std::string pixels(const PixelOp& op) {
        const auto once = [&](bool& before, const char* name) -> std::string {
            if (std::exchange(before, true)) {
                return std::string("is a second ") + name;
            }
            return "";
        };
        if (std::holds_alternative<RandomErasing>(op)) {
            return once(erased_, "random_erasing");
        }
        const bool jitters = std::holds_alternative<ColorJitter>(op);
        if (!jitters && !std::holds_alternative<RandomGrayscale>(op)) {
            return "changes pixels in a way that is done on the CPU";
        }
        if (erased_) {
            return "changes colours after random_erasing";
        }
        return jitters ? once(jittered_, "color_jitter") : once(grayed_, "random_grayscale");
    }
    std::string crop() const {
        return erased_                ? "is a crop after random_erasing"
               : jittered_ || grayed_ ? "is a crop after a change of colours"
                                      : "";
    }
    std::string flip() const { return erased_ ? "is a flip after random_erasing" : ""; }

  private:
    bool jittered_ = false;
    bool grayed_ = false;
    bool erased_ = false;
};

// Draws the op's parameters for an image of this size. False for an op without a place.
bool draw_output(const PixelOp& op, ImageSize size, Rng& rng, OutputDraw& draw) {
    if (const auto* const jitter = std::get_if<ColorJitter>(&op)) {
        draw.add(draw_color_jitter(*jitter, rng));
    } else if (const auto* const grayscale = std::get_if<RandomGrayscale>(&op)) {
        if (draw_random_grayscale(*grayscale, rng)) {
            draw.add(ColorStep::gray);
        }
    } else if (const auto* const erasing = std::get_if<RandomErasing>(&op)) {
        const ErasingParams params = draw_random_erasing(*erasing, size.height, size.width, rng);
        draw.erased = params.box;
        draw.noise = params.noise;
    } else {
        return false;
    }
    return true;
}

// Why a device cannot resize so; empty: it can.
std::string why_not_resized(Interpolation interpolation) {
    return on_device(interpolation) ? "" : "has an interpolation that is done on the CPU";
}

// The first op without a place in an order.
template <typename Order>
std::optional<HostOp> find_host_op(const OpSlice& slice, Order order) {
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        if (std::string why = std::visit(order, slice.ops[i]); !why.empty()) {
            return HostOp{.op = i, .why = std::move(why)};
        }
    }
    return std::nullopt;
}

// Whether an op has a place behind those before it. Each call returns why not.
class GatherOrder {
  public:
    std::string operator()(const RandomCrop& /*op*/) { return crop(/*resizes=*/false); }
    std::string operator()(const RandomResizedCrop& op) {
        const std::string why =
            op.interpolation ? why_not_resized(*op.interpolation) : "draws its interpolation, which is done on the CPU";
        return why.empty() ? crop(/*resizes=*/true) : why;
    }
    std::string operator()(const AspectCropOp& /*op*/) const { return "gives images of several sizes"; }
    std::string operator()(const HorizontalFlip& /*op*/) { return flip(); }
    std::string operator()(const Resize& /*op*/) const { return "is a resize after a random op"; }
    std::string operator()(const CenterCrop& /*op*/) const { return "is a center_crop after a random op"; }
    std::string operator()(const Normalize& /*op*/) const { return ""; }
    std::string operator()(const ToFloat& /*op*/) const { return "makes floats, which is done on the CPU"; }
    std::string operator()(const SoundOp& /*op*/) const { return "is for sounds, on the CPU"; }
    std::string operator()(const PixelOp& op) {
        return std::holds_alternative<VerticalFlip>(op) ? flip() : output_.pixels(op);
    }

  private:
    std::string crop(bool resizes) {
        if (std::exchange(cropped_, true)) {
            return "is a second crop";
        }
        std::string why = output_.crop();
        return why.empty() && resizes && flipped_ ? "is a random_resized_crop after a flip" : why;
    }
    std::string flip() {
        flipped_ = true;
        return output_.flip();
    }

    bool cropped_ = false;
    bool flipped_ = false;
    OutputPlaces output_;
};

struct DrawGather {
    GatherDraw& draw;
    ImageSize& size;  // after the ops so far
    Rng rng;

    void operator()(const RandomCrop& op) {
        const int width = size.width;
        draw.box = draw_random_crop(op, size.height, width, rng);
        // The flips before it come after it here, so the box is mirrored. Padding is the same on both sides.
        if (draw.flip_horizontal != 0) {
            draw.box.left = width - draw.box.left - draw.box.width;
        }
        if (draw.flip_vertical != 0) {
            draw.box.top = size.height - draw.box.top - draw.box.height;
        }
        size = {op.height, op.width};
    }
    void operator()(const RandomResizedCrop& op) {
        draw.box = draw_random_resized_crop(op, size.height, size.width, rng);
        size = {op.height, op.width};
    }
    void operator()(const HorizontalFlip& op) { draw.flip_horizontal ^= draw_horizontal_flip(op, rng) ? 1 : 0; }
    void operator()(const PixelOp& op) {
        if (const auto* flip = std::get_if<VerticalFlip>(&op)) {
            draw.flip_vertical ^= draw_vertical_flip(*flip, rng) ? 1 : 0;
        } else {
            draw_output(op, size, rng, draw.output);
        }
    }
    void operator()(const auto& /*op*/) const {}
};

std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
}

// Whether an op has a place behind those before it. Each call returns why not.
class DctCropOrder {
  public:
    std::string operator()(const Resize& op) { return resize(op.interpolation); }
    std::string operator()(const RandomResizedCrop& op) {
        return resize(op.interpolation.value_or(Interpolation::bicubic));
    }
    std::string operator()(const AspectCropOp& /*op*/) const { return "gives images of several sizes"; }
    std::string operator()(const CenterCrop& /*op*/) const { return crop(); }
    std::string operator()(const RandomCrop& op) const {
        const auto& [left, top, right, bottom] = op.padding;
        return left != 0 || top != 0 || right != 0 || bottom != 0 ? "pads, which is done on the CPU" : crop();
    }
    std::string operator()(const HorizontalFlip& /*op*/) {
        flipped_ = true;
        return output_.flip();
    }
    std::string operator()(const Normalize& /*op*/) const { return ""; }
    std::string operator()(const ToFloat& /*op*/) const { return "makes floats, which is done on the CPU"; }
    std::string operator()(const SoundOp& /*op*/) const { return "is for sounds, on the CPU"; }
    std::string operator()(const PixelOp& op) {
        if (std::holds_alternative<VerticalFlip>(op)) {
            upside_down_ = true;
            return output_.flip();
        }
        return output_.pixels(op);
    }

  private:
    std::string crop() const { return upside_down_ ? "is a crop after vertical_flip" : output_.crop(); }
    std::string resize(Interpolation interpolation) {
        if (std::string why = why_not_resized(interpolation); !why.empty()) {
            return why;
        }
        return std::exchange(resized_, true) ? "is a second resize" : flipped_ ? "is a resize after a flip" : crop();
    }

    bool resized_ = false;
    bool flipped_ = false;
    bool upside_down_ = false;
    OutputPlaces output_;
};

// Draws an op that does not fold. Returns false for one without a place in one assemble.
struct DrawUnfolded {
    AssembleDraw& draw;
    OutputPlaces& places;
    ImageSize size;
    Rng& rng;

    bool operator()(const HorizontalFlip& op) const {
        if (!places.flip().empty()) {
            return false;
        }
        draw.flip_horizontal ^= draw_horizontal_flip(op, rng) ? 1 : 0;
        return true;
    }
    bool operator()(const PixelOp& op) const {
        const auto* const flip = std::get_if<VerticalFlip>(&op);
        if (!(flip != nullptr ? places.flip() : places.pixels(op)).empty()) {
            return !changes_pixels(op, size, rng);
        }
        if (flip != nullptr) {
            draw.flip_vertical ^= draw_vertical_flip(*flip, rng) ? 1 : 0;
            return true;
        }
        return draw_output(op, size, rng, draw.output);
    }
    bool operator()(const auto& /*op*/) const { return false; }
};

}  // namespace

OutputOps output_ops(const OpSlice& slice) {
    OutputOps ops;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        const auto* const pixels = std::get_if<PixelOp>(&slice.ops[i]);
        if (pixels == nullptr) {
            continue;
        }
        ops.colors |= std::holds_alternative<ColorJitter>(*pixels) || std::holds_alternative<RandomGrayscale>(*pixels);
        if (const auto* const erasing = std::get_if<RandomErasing>(pixels)) {
            ops.erased_value = erasing->value;
        }
    }
    return ops;
}

std::optional<HostOp> find_not_gathered(const OpSlice& slice) {
    return find_host_op(slice, GatherOrder());
}

GatherPlan gather_plan(const OpSlice& slice, ImageSize image) {
    GatherPlan plan{.ops = {}, .to = image};
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        if (const auto* const crop = std::get_if<RandomCrop>(&slice.ops[i])) {
            plan.to = {crop->height, crop->width};
            plan.ops.mode = crop->mode;
            plan.ops.fill = crop->fill;
        } else if (const auto* const resized = std::get_if<RandomResizedCrop>(&slice.ops[i])) {
            plan.to = {resized->height, resized->width};
            plan.ops.resizes = true;
            plan.ops.interpolation = resized->interpolation.value_or(Interpolation::bilinear);
        }
    }
    const OutputOps output = output_ops(slice);
    plan.ops.colors = output.colors;
    plan.ops.erased_value = output.erased_value;
    return plan;
}

GatherDraw draw_gather(const OpSlice& slice, ImageSize image, RngKey key) {
    GatherDraw draw{.box = {0, 0, image.height, image.width}};
    ImageSize size = image;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        key.op = static_cast<std::uint16_t>(i);
        std::visit(DrawGather{draw, size, Rng(key)}, slice.ops[i]);
    }
    return draw;
}

DecodedBytes decoded_bytes(const DctCrop& crop) {
    const std::uint64_t pixels =
        std::uint64_t{3} * static_cast<std::uint64_t>(crop.box.height) * static_cast<std::uint64_t>(crop.box.width);
    return {.samples = aligned(crop.samples), .pixels = aligned(pixels)};
}

std::optional<HostOp> find_not_dct_crop(const OpSlice& slice) {
    return find_host_op(slice, DctCropOrder());
}

bool Transform::draw_unfolded(std::size_t next, RngKey key, AssembleDraw& draw, ImageSize size) const {
    OutputPlaces places;
    for (; next < ops_.size(); ++next) {
        key.op = static_cast<std::uint16_t>(next);
        Rng rng(key);
        if (!std::visit(DrawUnfolded{draw, places, size, rng}, ops_[next])) {
            return false;
        }
    }
    return true;
}

std::optional<DctCropImage> Transform::dct_crop(const FieldValue& stored, const RngKey& key, std::size_t most,
                                                TransformScratch& scratch, const ImageSlot& slot,
                                                StageClock& clock) const {
    if (!stored.encoded || options_.decode == DecodeMode::fast || options_.channels == 1) {
        return std::nullopt;
    }
    const bool record = sniff_dct(stored.bytes).has_value();
    EntryPoints points = record ? EntryPoints{} : scratch.decoder.known_points(stored.bytes);
    if (!record && points.points.empty()) {
        return std::nullopt;
    }
    const ImageInfo info = record ? scratch.cropper.open(stored.bytes) : scratch.jpeg_cropper.open(stored.bytes);
    if (options_.exif && info.orientation != 1) {
        return std::nullopt;
    }
    scratch.input = {info.height, info.width};
    Geometry geometry(scratch.input);
    const std::size_t next = fold(geometry, 0, ops_.size(), key, scratch);
    const ResizeGeometry resizing = geometry.resizing();
    const Box reads = geometry.reads();
    DctCropImage image;
    image.draw = {
        .window = {reads.top - geometry.box().top, reads.left - geometry.box().left, reads.height, reads.width},
        .source = resizing.source,
        .full = resizing.full,
        .top = resizing.part.top,
        .left = resizing.part.left,
        .flip_horizontal = resizing.flip ? 1 : 0,
        .interpolation = resizing.interpolation};
    if (!assemble_fits(resizing) || !draw_unfolded(next, key, image.draw, geometry.size())) {
        return std::nullopt;
    }
    image.crop = record ? scratch.cropper.crop(reads, most) : scratch.jpeg_cropper.crop(reads, std::move(points), most);
    if (image.crop.empty() ||
        decoded_bytes(*reinterpret_cast<const DctCrop*>(image.crop.data())).sum() > kMostDecoded) {
        return std::nullopt;
    }
    require_size(slot, 3, geometry.size());
    clock.lap(Stage::pixels);
    return image;
}

}  // namespace stoker
