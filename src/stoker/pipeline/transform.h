// The ops of a recipe as one program from a sample to its place in the batch: decode, the ops in
// order, float pixels. Every random op draws from its own stream of (seed, epoch, sample), so the
// result does not depend on who runs it or when.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/codecs/codec.h"
#include "stoker/formats/source.h"
#include "stoker/ops/crop.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/resize.h"
#include "stoker/recipe/recipe.h"
#include "stoker/trace/stages.h"

namespace stoker {

struct Resize {
    int shorter = 0;                     // the shorter side becomes this; 0: `size` is meant
    std::optional<ImageSize> size = {};  // exactly this
};

struct CenterCrop {
    int height = 0;
    int width = 0;
};

using Op = std::variant<Resize, CenterCrop, RandomResizedCrop, HorizontalFlip, Normalize>;

// What one worker keeps from sample to sample.
struct TransformScratch {
    Decoder decoder;
    Image decoded;
    Image pixels[2];  // ops read one and write the other
    ResizeScratch resize;
    int used = 0;
};

class Transform {
  public:
    Transform() = default;
    // Throws InvalidArgument for an unknown op or option, naming its place in the recipe.
    explicit Transform(const std::vector<OpSpec>& specs, bool exif = false);
    explicit Transform(std::vector<Op> ops, bool exif = false);

    const std::vector<Op>& ops() const { return ops_; }

    // Decodes and runs the ops before the first random one: the part that is the same in every
    // epoch, and so may be cached. The view lies in the sample or in `scratch`.
    ConstImageView prepare(const Sample& sample, TransformScratch& scratch, StageClock& clock) const;

    // Runs the remaining ops on a prepared image. `key.op` is ignored. The view lies in the image or in `scratch`.
    ConstImageView augment(ConstImageView image, RngKey key, TransformScratch& scratch) const;

    // float32 (C, H, W), or (H, W, C) for Layout::hwc.
    void write(ConstImageView image, Layout layout, float* out) const;

  private:
    ConstImageView run(const Op& op, ConstImageView image, Rng& rng, TransformScratch& scratch) const;

    std::vector<Op> ops_;    // without the final normalize
    std::size_t fixed_ = 0;  // leading ops without randomness
    Normalize normalize_;
    bool exif_ = false;
};

}  // namespace stoker
