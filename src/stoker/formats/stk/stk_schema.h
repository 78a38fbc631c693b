// Schema and values of the samples of an stk data set: named fields of six kinds. Every shard stores the schema, so
// that a shard can be read alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stoker/base/dtype.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

enum class StkKind : std::uint8_t {
    image = 1,    // pixels, raw or encoded
    label = 2,    // a class index, -1 for none
    integer = 3,  // int64
    number = 4,   // float64
    bytes = 5,    // any bytes
    tensor = 6,   // dtype and rank are the field's; each sample has its own shape
};

std::string_view kind_name(StkKind kind);

// Encoding of an image. The numbers are those of the file format. A reader accepts unknown numbers as encoded images;
// the decoder then rejects them.
enum class StkCodec : std::uint16_t {
    raw = 0,
    jpeg = 1,
    png = 2,
    dct = 3,
    dct_zstd = 4,
    webp = 5,
    bmp = 6,
    pnm = 7,
    tiff = 8,
    npy = 9,    // raw pixels that are not uint8 of up to 4 channels
    clip = 10,  // several images (stk_clip.h)
    video = 11,
    sound = 12,  // a file
    avif = 13,
    heic = 14,
    jxl = 15,
    gif = 16,
    jpeg2000 = 17,
    dct_ans = 18
};

// "jpeg"; "codec-9" for an unknown number.
std::string stk_codec_name(StkCodec codec);

struct StkField {
    std::string name;
    StkKind kind = StkKind::image;
    std::vector<std::string> classes = {};  // of a label: names by class index; may be empty
    DType dtype = DType::uint8;             // of a tensor
    int rank = 0;                           // of a tensor

    bool has_payload() const { return kind == StkKind::image || kind == StkKind::bytes || kind == StkKind::tensor; }
    bool operator==(const StkField&) const = default;
};

struct StkSchema {
    std::vector<StkField> fields;

    // Index of the field with this name, or of the first field of this kind.
    std::optional<std::size_t> find(std::string_view name) const;
    std::optional<std::size_t> first(StkKind kind) const;
    bool operator==(const StkSchema&) const = default;
};

inline constexpr std::size_t kStkMaxFields = 256;
inline constexpr int kStkMaxRank = 16;

// The fields that the pipeline trains on: "image" and "label".
StkSchema stk_image_schema(std::span<const std::string> classes);

// Throws InvalidArgument for no or too many fields, an empty or repeated name, or a rank out of range.
void check_schema(const StkSchema& schema);

// Encodes the schema as stored in a shard. decode_schema throws DataError with the offset within `bytes`.
std::string encode_schema(const StkSchema& schema);
StkSchema decode_schema(std::span<const std::byte> bytes);

// ---- Values of one sample's fields, for the writer and from the reader. All are views. ----

struct StkImage {
    std::span<const std::byte> bytes;
    StkCodec codec = StkCodec::raw;
    int height = 0;  // of raw pixels (height, width, channels); 0 for an encoded image
    int width = 0;
    int channels = 0;            // 1 to 4
    bool original_file = false;  // the packed file can be restored from these bytes, byte for byte
};

using StkBytes = std::span<const std::byte>;

// By kind: image, label and integer, number, bytes, tensor.
using StkValue = std::variant<StkImage, std::int64_t, double, StkBytes, TensorView>;

}  // namespace stoker
