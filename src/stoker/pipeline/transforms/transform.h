// Runs a recipe's ops from a sample to its place in the batch. Resizes, crops and flips need only the image's size, so
// they are folded before it is decoded; only the pixels they read are decoded, and one pass writes them to the batch.
// The result equals running op after op. Every random op has its own stream of (seed, epoch, sample, op), so the result
// does not depend on the thread or the time.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct_crop.h"
#include "stoker/codecs/dct/jpeg_crop.h"
#include "stoker/formats/dataset.h"
#include "stoker/ops/aspect_crop.h"
#include "stoker/ops/assemble.h"
#include "stoker/ops/crop.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/plane_ops.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/resize_normalize.h"
#include "stoker/ops/resize_stream.h"
#include "stoker/pipeline/transforms/geometry.h"
#include "stoker/pipeline/transforms/pixel_ops.h"
#include "stoker/pipeline/transforms/region_sink.h"
#include "stoker/pipeline/transforms/sound_ops.h"
#include "stoker/recipe/recipe.h"
#include "stoker/records/stages.h"

namespace stoker {

// The op `resize`, with antialiasing, as torchvision's.
struct Resize {
    int shorter = 0;                     // new length of the shorter side; 0: `size` holds
    std::optional<ImageSize> size = {};  // exact size
    Interpolation interpolation = Interpolation::bilinear;
};

// The op `center_crop`, in pixels. A smaller image is padded with zeros, as in torchvision.
struct CenterCrop {
    int height = 0;
    int width = 0;
};

// The ops `to_float` and `window`: the image becomes one of float32, as planes.
struct ToFloat {
    bool scale = true;  // whole numbers are divided by the type's largest, as torchvision's to_dtype does
    std::optional<std::array<float, 2>> window = {};  // the stored values that become 0 and 1; others are clipped
};

// The op `aspect_crop` and its sizes.
struct AspectCropOp {
    AspectCrop crop;
    std::vector<ImageSize> sizes;  // aspect_sizes(crop)

    // That of the batch, which has a sample of another ratio where it replaces a bad one; without one the nearest.
    ImageSize size_for(ImageSize image, const std::optional<ImageSize>& batch) const {
        return sizes.size() > 1 && batch ? *batch : sizes[nearest_aspect(sizes, image)];
    }
};

// One op of a list. A CustomOp is a PixelOp.
using Op = std::variant<Resize, CenterCrop, RandomResizedCrop, AspectCropOp, HorizontalFlip, Normalize, RandomCrop,
                        ToFloat, SoundOp, PixelOp>;

struct TransformOptions {
    bool exif = false;         // rotate images by their EXIF orientation
    bool first_frame = false;  // read the first frame of an animation
    DecodeMode decode = DecodeMode::exact;
    std::int64_t channels = 0;  // 1: encoded images become grey; otherwise they are RGB; 3: so are raw grey images
    int sample_rate = 0;        // of sounds, in Hz, for mel_spectrogram
};

// How a recipe's [data] says that images are decoded.
TransformOptions transform_options(const DataRecipe& recipe);

// The target of one sample in a batch, and the size that its image must have.
struct ImageSlot {
    PixelTarget pixels;
    int channels = 0;
    int height = 0;
    int width = 0;
    bool planes = false;  // images run as planes; `pixels` is then of floats
    bool given = false;   // the size comes from LoaderOptions::size; false: from the first sample
    int frames = 0;       // of a clip; 0: one image

    // (C, H, W), of a clip (T, C, H, W).
    Shape shape() const;
    // The slot of one frame of a clip.
    ImageSlot frame(int number) const;
    ImageSlot at(std::span<std::byte> bytes) const {
        ImageSlot slot = *this;
        slot.pixels.data = bytes.data();
        return slot;
    }
};

// The image, or a clip's first frame.
const FieldValue& first_image(const FieldValue& value);

// Calls `run` for the image, or for each frame of a clip, with its slot, and names the frame in what it throws. Throws
// SizeMismatch for another number of frames than the slot has.
void for_frames(const FieldValue& value, const ImageSlot& slot,
                const std::function<void(const FieldValue& image, const ImageSlot& slot)>& run);

// Throws DataError for a frame of another size than the first, which it sets for the first.
void require_one_size(ImageSize frame, std::optional<ImageSize>& first);

// A device makes a sample's image from this: a part of its dct record, or of its JPEG's scan, in the scratch, and the
// ops as the draws of one assemble.
struct DctCropImage {
    std::span<const std::byte> crop;
    AssembleDraw draw;  // without `image`
};

// Buffers that one worker reuses for every sample.
// The class of each value that a mask stores.
using MaskClasses = std::array<std::uint8_t, 256>;

// Class i for `values[i]`, each from 0 to 255; others become 255, which the loss leaves out. Empty without values.
std::optional<MaskClasses> mask_classes(std::span<const std::int64_t> values);

struct TransformScratch {
    Decoder decoder;
    DctCropper cropper;
    JpegCropper jpeg_cropper;
    Image decoded;
    std::array<Image, 2> pixels;  // ops read one and write the other
    Image original;               // a copy for pixel ops that read what they overwrite
    ResizeScratch resize;
    ResizeStream stream;
    std::array<Planes, 2> planes;  // as `pixels`
    Planes planes_copy;
    SoundScratch sound;
    Planes clip;  // the frames below each other
    PlanesResizeScratch planes_resize;
    std::vector<float> sorted;                 // for percentiles
    FieldValue array;                          // the raw pixels of a TIFF
    std::size_t current = 0;                   // index of the one written last
    ImageSize input{};                         // of the last image, before the first op that ran on it
    std::optional<ImageSize> batch_size = {};  // of all images of the batch, for aspect_crop
};

// The scratch image that does not hold the current pixels, with this shape; it becomes the current one.
ImageView next_scratch(TransformScratch& scratch, int height, int width, int channels);

// The size of an image after a resize. Throws DataError for more than kMaxPixels.
ImageSize target_size(const Resize& op, ImageSize from);

// The ops number `begin` to `end` of a transform. An op's place in the whole list is the stream of its draws.
struct OpSlice {
    std::span<const Op> ops;  // of the whole transform
    std::size_t begin = 0;
    std::size_t end = 0;
};

// An op that only the host can do, and why: "is a second crop".
struct HostOp {
    std::size_t op = 0;  // its place in the list
    std::string why;
};

// All ops, those before the first random one, or the rest.
enum class OpRange { all, prepared, remaining };

// The transformed image has another size than the batch: the ops do not unify sizes; the sample is not damaged.
class SizeMismatch : public DataError {
    using DataError::DataError;
};

// Throws SizeMismatch.
void require_size(const ImageSlot& slot, int channels, ImageSize size);

// True if the ops bring images of any size to one size.
bool gives_one_size(const std::vector<Op>& ops);

// The list's aspect_crop if it alone sets the size of the results, from the size of the image; else null.
const AspectCropOp* find_aspect_crop(const std::vector<Op>& ops);

// True if the ops keep the whole image in its place: they resize it or change its values.
bool keep_frame(const std::vector<Op>& ops);

// True for raw pixels and TIFFs that do not run as bytes. Throws DataError for a damaged header.
bool is_deep(const FieldValue& image);

// An op whose colour has several values, one for each channel.
struct OpColor {
    std::string where;  // in the recipe
    std::size_t values = 0;
};

// A list of ops. One object serves all workers: its functions are const, and change TransformScratch alone.
class Transform {
  public:
    // No ops: pixels as floats in [0, 1].
    Transform() : Transform(std::vector<Op>{}) {}
    // Throws InvalidArgument for an unknown op or option, naming its place in the recipe.
    explicit Transform(const std::vector<OpSpec>& specs, const TransformOptions& options = {});
    explicit Transform(std::vector<Op> ops, const TransformOptions& options = {});
    Transform(std::initializer_list<Op> ops) : Transform(std::vector<Op>(ops)) {}

    const std::vector<Op>& ops() const { return ops_; }

    const TransformOptions& options() const { return options_; }

    // The final normalize. All other ops work on bytes and `normalize` is refused anywhere but at the end, so every
    // list of ops may leave it to a device (LoaderOptions::images).
    const NormalizeFactors& factors() const { return factors_; }

    // True if the ops need floats.
    bool needs_planes() const { return needs_planes_; }
    // True if the image runs as planes: raw pixels that are deep, a PNG of 16 bits unless an op is a program's own, or
    // any image if the ops need floats. Throws DataError for a damaged header. Functions for planes throw
    // InvalidArgument for a program's own op, which takes bytes.
    bool takes_planes(const FieldValue& image, TransformScratch& scratch) const;

    // The size of an image before the ops, from its header. Throws DataError for a damaged one, a clip, a video or a
    // sound.
    ImageSize input_size(const FieldValue& image, TransformScratch& scratch) const;

    // The raw pixels of a TIFF, in the scratch; other images unchanged. Throws DataError.
    const FieldValue& with_array(const FieldValue& image, TransformScratch& scratch) const;

    // Throws InvalidArgument with the op's place in the recipe if `normalize` or an op's colour has values for another
    // number of channels.
    void require_channels(int channels) const;

    // The image as bytes after all ops but `normalize`, to look at. If the image or the ops need floats, the picture is
    // stretched from the smallest to the largest value, and has the first three channels of more than two, or else one.
    // In the image or in `scratch`. Throws as `run`.
    ConstImageView picture(const FieldValue& image, const RngKey& key, TransformScratch& scratch,
                           StageClock& clock) const;
    // The image as planes after all ops but `normalize`, in `scratch`. Throws as `run`.
    ConstPlanesView planes(const FieldValue& image, const RngKey& key, TransformScratch& scratch,
                           StageClock& clock) const;

    // Transforms the image into its slot, or each frame of a clip with the same random numbers. `key.op` is ignored.
    // Throws DataError for a damaged image or frames of several sizes, and SizeMismatch for an image of another size
    // than the slot.
    void run(const FieldValue& image, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot,
             StageClock& clock) const;

    // For a device that decodes: the image's crop, if it has at most `most` bytes and takes at most kMostDecoded there.
    // Empty if `run` must make the image: it is neither a dct record nor a JPEG whose entry points the decoder's index
    // has, or these draws do not fit one assemble. Throws what `run` throws.
    std::optional<DctCropImage> dct_crop(const FieldValue& image, const RngKey& key, std::size_t most,
                                         TransformScratch& scratch, const ImageSlot& slot, StageClock& clock) const;

    // The same in two steps, with a cache in between. `prepare` runs the ops before the first random one, whose result
    // is the same in every epoch. The view is in the image or in `scratch`.
    ConstImageView prepare(const FieldValue& image, TransformScratch& scratch, StageClock& clock) const;
    void run(ConstImageView prepared, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot) const;

    // The second step without `normalize`. The view is in `prepared` or in `scratch`.
    ConstImageView augment(ConstImageView prepared, const RngKey& key, TransformScratch& scratch) const;

    // Masks and boxes of an image (overlay.h), with the random numbers that the image has; `image` is its size before
    // the ops. The mask's view is in `mask` or in `scratch`. `boxes` has the boxes' (K, 4) floats and is changed in
    // place, for a batch of images of `batch_size`. With `classes` a mask's stored values become classes before the
    // ops. Throws DataError for a damaged mask, one of several channels, and one of another size than the image.
    ConstImageView mask(const FieldValue& mask, ImageSize image, OpRange range, const RngKey& key,
                        TransformScratch& scratch, StageClock& clock, const MaskClasses* classes = nullptr) const;
    void boxes(std::span<float> boxes, ImageSize image, OpRange range, const RngKey& key,
               const std::optional<ImageSize>& batch_size = {}) const;

    // The ops before the first random one, the rest, or all. The slice refers to this transform.
    OpSlice slice(OpRange range) const;

  private:
    Transform(const std::vector<OpSpec>& specs, const TransformOptions& options, std::vector<OpColor> colors);

    // A partly transformed image: the ops before `next` are done or folded into the geometry.
    struct PartialImage {
        ConstImageView pixels;
        Box window{};  // the part of the geometry's input that `pixels` holds
        Geometry geometry;
        std::size_t next = 0;
        bool written = false;  // to its slot
    };

    // The same as planes.
    struct DeepImage {
        ConstPlanesView pixels;
        PlaneValues values = {};
        Box window{};
        Geometry geometry = {};
        std::size_t next = 0;
    };
    // True if raw pixels become three equal channels.
    bool makes_rgb(int channels) const { return options_.channels == 3 && channels == 1; }
    // The first op that is for bytes alone.
    std::optional<std::size_t> find_for_bytes() const;
    DeepImage load_planes(const FieldValue& stored, const RngKey& key, TransformScratch& scratch,
                          StageClock& clock) const;
    PlanesView decode_deep(const FieldValue& stored, const Box& box, TransformScratch& scratch) const;
    void write_planes(const DeepImage& image, TransformScratch& scratch, const ImageSlot& slot) const;
    void run_clip(const FieldValue& clip, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot,
                  StageClock& clock) const;
    void run_clip_of_own_range(const FieldValue& clip, const RngKey& key, TransformScratch& scratch,
                               const ImageSlot& slot, StageClock& clock) const;
    DeepImage run_planes(const FieldValue& stored, const RngKey& key, TransformScratch& scratch,
                         StageClock& clock) const;
    PartialImage decode(const FieldValue& stored, std::size_t end, const RngKey& key, TransformScratch& scratch,
                        StageClock& clock, const ImageSlot* slot = nullptr) const;
    PartialImage begin(ConstImageView image, std::size_t next, std::size_t end, const RngKey& key,
                       const TransformScratch& scratch) const;
    std::size_t fold(Geometry& geometry, std::size_t next, std::size_t end, RngKey key,
                     const TransformScratch& scratch) const;
    bool draw_unfolded(std::size_t next, RngKey key, AssembleDraw& draw, ImageSize size) const;
    void run_unfolded(PartialImage& image, std::size_t end, const RngKey& key, TransformScratch& scratch) const;
    void write(const PartialImage& image, TransformScratch& scratch, const ImageSlot& slot) const;

    std::vector<Op> ops_;            // without the final normalize
    std::size_t deterministic_ = 0;  // number of ops before the first random one
    NormalizeFactors factors_;
    Normalize normalize_;
    bool needs_planes_ = false;
    std::vector<OpColor> colors_;
    std::string last_op_ = "ops";  // its place in the recipe, for messages
    TransformOptions options_;
};

}  // namespace stoker
