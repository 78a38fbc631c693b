#include "stoker/pipeline/transforms/dct_crop_ops.h"

#include <utility>

#include "stoker/codecs/dct/dct.h"
#include "stoker/pipeline/transforms/output_ops.h"

namespace stoker {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
}

// Whether an op has a place behind those before it. Each call returns why not.
class DctCropOrder {
  public:
    std::string operator()(const Resize& /*op*/) { return resize(); }
    std::string operator()(const RandomResizedCrop& /*op*/) { return resize(); }
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
    std::string operator()(const PixelOp& op) {
        if (std::holds_alternative<VerticalFlip>(op)) {
            upside_down_ = true;
            return output_.flip();
        }
        return output_.pixels(op);
    }

  private:
    std::string crop() const { return upside_down_ ? "is a crop after vertical_flip" : output_.crop(); }
    std::string resize() {
        return std::exchange(resized_, true) ? "is a second resize" : flipped_ ? "is a resize after a flip" : crop();
    }

    bool resized_ = false;
    bool flipped_ = false;
    bool upside_down_ = false;
    OutputPlaces output_;
};

// Draws an op that does not fold. Returns false where it has no place in one assemble.
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

DecodedBytes decoded_bytes(const DctCrop& crop) {
    const std::uint64_t pixels =
        std::uint64_t{3} * static_cast<std::uint64_t>(crop.box.height) * static_cast<std::uint64_t>(crop.box.width);
    return {.samples = aligned(crop.samples), .pixels = aligned(pixels)};
}

std::optional<HostOp> find_not_dct_crop(const OpSlice& slice) {
    DctCropOrder places;
    for (std::size_t i = slice.begin; i < slice.end; ++i) {
        if (std::string why = std::visit(places, slice.ops[i]); !why.empty()) {
            return HostOp{.op = i, .why = std::move(why)};
        }
    }
    return std::nullopt;
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
    if (!stored.encoded || !sniff_dct(stored.bytes) || options_.decode == DecodeMode::fast || options_.channels == 1) {
        return std::nullopt;
    }
    const ImageInfo info = scratch.cropper.open(stored.bytes);
    if (options_.exif && info.orientation != 1) {
        return std::nullopt;
    }
    scratch.input = {info.height, info.width};
    Geometry geometry(scratch.input);
    const std::size_t next = fold(geometry, 0, ops_.size(), key);
    const auto [source, full, part, flip] = geometry.resizing();
    const Box reads = geometry.reads();
    DctCropImage image;
    image.draw = {
        .window = {reads.top - geometry.box().top, reads.left - geometry.box().left, reads.height, reads.width},
        .source = source,
        .full = full,
        .top = part.top,
        .left = part.left,
        .flip_horizontal = flip ? 1 : 0};
    if (!assemble_fits(source, full, geometry.size()) || !draw_unfolded(next, key, image.draw, geometry.size())) {
        return std::nullopt;
    }
    image.crop = scratch.cropper.crop(reads, most);
    if (image.crop.empty() ||
        decoded_bytes(*reinterpret_cast<const DctCrop*>(image.crop.data())).sum() > kMostDecoded) {
        return std::nullopt;
    }
    require_size(slot, 3, geometry.size());
    clock.lap(Stage::pixels);
    return image;
}

}  // namespace stoker
