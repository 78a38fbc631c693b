// One sample from the form in which its source stores it to the form in which a packed data set shall. Without a
// wish to the contrary the bytes stay as they are; in any case the sample is decoded once, so that what is
// packed is known to be good.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_value.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// keep: the bytes as they are. jpeg: the same, but that dct records become the JPEGs again that they were made of,
// which other programs can read.
enum class PackCodec { keep, jpeg, dct, dct_zstd, raw };

// "keep", "jpeg", "dct", "dct-zstd", "raw"; throws InvalidArgument for another.
PackCodec parse_pack_codec(std::string_view name);
std::string_view pack_codec_name(PackCodec codec);

struct RecodeOptions {
    std::optional<PackCodec> codec = std::nullopt;  // empty: what the target's format goes by; here keep
    int resize_shorter = 0;                         // images with a longer shorter side are reduced to this; 0: none is
    int quality = 0;  // 1..100: every image becomes a JPEG of this quality; 0: only resized JPEGs, of 90
};

struct Recoded {
    StkImage image;          // a view into the sample, or into `made`
    std::string kept;        // why the image is not in the codec that was asked for; mostly empty
    bool exif_lost = false;  // an EXIF orientation that the new bytes do not carry
    std::vector<std::byte> made;
};

// One worker's: keeps its memory from sample to sample.
class Recoder {
  public:
    explicit Recoder(const RecodeOptions& options);

    // `original`: the sample's bytes are, or give back, the file that it once was. Throws DataError for a
    // sample that cannot be decoded.
    void run(const Sample& sample, bool original, Recoded& out);

  private:
    bool is_plain_dct(const Sample& sample) const;
    ConstImageView decode(const Sample& sample);
    ConstImageView resized(ConstImageView image);
    void keep(const Sample& sample, Recoded& out) const;
    void to_dct(std::span<const std::byte> bytes, StkCodec codec, Recoded& out) const;
    void encode(ConstImageView image, const Sample& sample, Recoded& out) const;

    RecodeOptions options_;
    PackCodec codec_;
    Transform transform_;  // without ops: checks and decodes
    TransformScratch scratch_;
    Image reduced_;
};

}  // namespace stoker
