// What the samples of an stk data set consist of: named fields of six kinds. The schema lies in
// every shard, so that each shard can be read by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/dtype.h"

namespace stoker {

enum class StkKind : std::uint8_t {
    image = 1,    // pixels, raw or encoded
    label = 2,    // a class index, -1 where there is none
    integer = 3,  // int64
    number = 4,   // float64
    bytes = 5,    // anything
    tensor = 6,   // of the field's type and rank; each sample has its own shape
};

std::string_view kind_name(StkKind kind);

// How the bytes of an image are to be read. The numbers are the file's; a reader takes those that it does
// not know for encoded images, and leaves it to the decoder to refuse them.
enum class StkCodec : std::uint16_t { raw = 0, jpeg = 1, png = 2, dct = 3, dct_zstd = 4, webp = 5, bmp = 6, pnm = 7 };

// "jpeg"; "codec-7" for a number without a name.
std::string stk_codec_name(StkCodec codec);

struct StkField {
    std::string name;
    StkKind kind = StkKind::image;
    std::vector<std::string> classes = {};  // of a label: names by class index, or none
    DType dtype = DType::uint8;             // of a tensor
    int rank = 0;                           // of a tensor

    bool has_payload() const { return kind == StkKind::image || kind == StkKind::bytes || kind == StkKind::tensor; }
    bool operator==(const StkField&) const = default;
};

struct StkSchema {
    std::vector<StkField> fields;

    std::optional<std::size_t> find(std::string_view name) const;
    std::optional<std::size_t> first(StkKind kind) const;
    bool operator==(const StkSchema&) const = default;
};

inline constexpr std::size_t kStkMaxFields = 256;
inline constexpr int kStkMaxRank = 16;

// What the pipeline reads: an image and a label.
StkSchema stk_image_schema(std::span<const std::string> classes);

// Throws InvalidArgument for no or too many fields, a name that is empty or there twice, a rank that cannot be.
void check_schema(const StkSchema& schema);

// As it lies in a file, and back; the latter throws DataError with the offset within `bytes`.
std::string encode_schema(const StkSchema& schema);
StkSchema decode_schema(std::span<const std::byte> bytes);

}  // namespace stoker
