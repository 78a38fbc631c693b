// The ops of a recipe as one program from a sample to its place in the batch. What the ops need to know of an
// image is its size, so resizes, crops and flips are folded before it is decoded, only what they read is
// decoded, and one pass takes it to the batch. The pixels are those of one op after the other. Every random
// op draws from its own stream of (seed, epoch, sample), so the result does not depend on who runs it or when.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/codecs/codec.h"
#include "stoker/formats/dataset.h"
#include "stoker/ops/crop.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/resize_normalize.h"
#include "stoker/pipeline/transforms/geometry.h"
#include "stoker/pipeline/transforms/pixel_ops.h"
#include "stoker/pipeline/transforms/region_sink.h"
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

using Op = std::variant<Resize, CenterCrop, RandomResizedCrop, HorizontalFlip, Normalize, RandomCrop, PixelOp>;

struct TransformOptions {
    bool exif = false;  // turn images as their EXIF orientation says
    DecodeMode decode = DecodeMode::exact;
    std::int64_t channels = 0;  // 1: encoded images become gray; else they are RGB
};

TransformOptions transform_options(const DataRecipe& recipe);

// One sample's place in a batch, and the size that its image must have.
struct ImageSlot {
    PixelTarget pixels;
    int channels = 0;
    int height = 0;
    int width = 0;
    bool given = false;  // the size; else it is that of sample 0
};

// What one worker keeps from sample to sample.
struct TransformScratch {
    Decoder decoder;
    Image decoded;
    Image pixels[2];  // ops read one and write the other
    Image original;   // what an op on pixels overwrites, while it needs it
    ResizeScratch resize;
    int used = 0;
};

// An image of another size than its slot: what the ops leave undone, no damage of the sample.
class SizeMismatch : public DataError {
    using DataError::DataError;
};

// Throws SizeMismatch.
void require_size(const ImageSlot& slot, int channels, ImageSize size);

// True where the ops bring all images to one size, whatever theirs is.
bool gives_one_size(const std::vector<Op>& ops);

class Transform {
  public:
    Transform() : Transform(std::vector<Op>{}) {}
    // Throws InvalidArgument for an unknown op or option, naming its place in the recipe.
    explicit Transform(const std::vector<OpSpec>& specs, const TransformOptions& options = {});
    explicit Transform(std::vector<Op> ops, const TransformOptions& options = {});

    const std::vector<Op>& ops() const { return ops_; }

    // Throws InvalidArgument, naming the op's place in the recipe, where `normalize` is for images of other channels.
    void require_channels(int channels) const;

    // From the sample to its slot. `key.op` is ignored. Throws DataError for an image that is damaged,
    // SizeMismatch for one of another size than the slot.
    void run(const Sample& sample, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot,
             StageClock& clock) const;

    // The same in two steps, for a cache between them. What comes before the first random op is the same in
    // every epoch: `prepare` does that, and the view lies in the sample or in `scratch`.
    ConstImageView prepare(const Sample& sample, TransformScratch& scratch, StageClock& clock) const;
    void run(ConstImageView prepared, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot) const;

    // The second step up to the pixels that `normalize` would see. The view lies in the image or in `scratch`.
    ConstImageView augment(ConstImageView prepared, const RngKey& key, TransformScratch& scratch) const;

  private:
    // An image on its way: the ops before `next` are done or folded into the geometry.
    struct Draft {
        ConstImageView pixels;
        Box window{};  // of the geometry's image that the pixels are
        Geometry geometry;
        std::size_t next = 0;
    };

    Draft open(const Sample& sample, std::size_t end, const RngKey& key, TransformScratch& scratch,
               StageClock& clock) const;
    Draft draft(ConstImageView image, std::size_t next, std::size_t end, const RngKey& key) const;
    std::size_t fold(Geometry& geometry, std::size_t next, std::size_t end, RngKey key) const;
    void settle(Draft& draft, std::size_t end, const RngKey& key, TransformScratch& scratch) const;
    void write(const Draft& draft, TransformScratch& scratch, const ImageSlot& slot) const;

    std::vector<Op> ops_;    // without the final normalize
    std::size_t fixed_ = 0;  // leading ops without randomness
    NormalizeFactors factors_;
    int normalized_channels_ = 0;  // 0: any number
    std::string last_op_ = "ops";  // its place in the recipe
    TransformOptions options_;
};

}  // namespace stoker
