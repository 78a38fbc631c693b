// Converts one sample from its stored form to the form that a packed data set stores. By default the bytes stay
// unchanged. Every sample is decoded once, so that a packed data set contains only decodable images.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_schema.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// keep: the bytes unchanged. jpeg: the same, except that dct records are converted back to the JPEGs that they were
// made from, for other programs.
enum class PackCodec { keep, jpeg, dct, dct_zstd, dct_ans, raw };

// "keep", "jpeg", "dct", "dct-zstd", "dct-ans", "raw"; throws InvalidArgument for another.
PackCodec parse_pack_codec(std::string_view name);
std::string_view pack_codec_name(PackCodec codec);

// The codec of an encoded image. Throws DataError for bytes that are none.
StkCodec stk_codec_of(std::span<const std::byte> bytes);

// A .npy file of raw pixels, or of a clip of such frames. Throws InvalidArgument for a type that NumPy lacks, for a
// shape that would be read in another order, and for frames that differ.
std::vector<std::byte> npy_file(const FieldValue& image);

struct TranscodeOptions {
    std::optional<PackCodec> codec = std::nullopt;  // empty: the default of the target's format; here keep
    int resize_shorter = 0;    // pixels: larger images are reduced until their shorter side has this; 0: none
    int quality = 0;           // 1..100: encode every image as a JPEG of this quality; 0: only resized JPEGs, with 90
    bool first_frame = false;  // read the first frame of an animation, as data.first_frame; it is refused otherwise
};

struct TranscodedImage {
    StkImage image;          // a view into the sample or into `made`
    std::string kept;        // why the image is not in the requested codec; empty if it is
    bool exif_lost = false;  // the image was encoded again and its EXIF orientation is lost
    std::vector<std::byte> made;
};

// For use by one thread. Reuses its memory from sample to sample.
class Transcoder {
  public:
    explicit Transcoder(const TranscodeOptions& options);

    // `original`: the packed file can be restored from the sample's bytes. Each frame of a clip becomes as an image
    // does. A video stays one, or becomes a clip of JPEGs, dct records or raw pixels. Throws DataError for a sample
    // that cannot be decoded.
    void run(const FieldValue& image, bool original, TranscodedImage& out);

    // Decodes the image of a further field, which is packed unchanged. Throws DataError if it cannot be decoded, and
    // for raw pixels that are not bytes.
    void check(const FieldValue& image);

  private:
    bool changes() const;
    void run_clip(const FieldValue& clip, bool original, TranscodedImage& out);
    void run_video(const FieldValue& video, TranscodedImage& out);
    void keep_sound(const FieldValue& sample, TranscodedImage& out);
    void keep_deep(const FieldValue& image, TranscodedImage& out);
    bool is_plain_dct(const FieldValue& image) const;
    ConstImageView decode(const FieldValue& image);
    ConstImageView resized(ConstImageView image);
    void keep(const FieldValue& image, TranscodedImage& out) const;
    void to_dct(std::span<const std::byte> bytes, StkCodec codec, TranscodedImage& out) const;
    void encode(ConstImageView image, const FieldValue& from, TranscodedImage& out) const;

    TranscodeOptions options_;
    PackCodec codec_;
    Transform transform_;  // without ops: checks and decodes
    TransformScratch scratch_;
    Buffer sound_;  // decoded
    Image reduced_;
};

}  // namespace stoker
