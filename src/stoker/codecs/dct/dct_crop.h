// A crop: the part of a dct record that a box of an image needs; a device decodes it without checks. The host checks
// all that a decoder checks, so a crop is as good as its decoded pixels; its coefficients are still packed. Only the
// blocks that the box needs are in it. A crop of a JPEG has pieces of its scan instead of rows (jpeg_crop.h). It is one
// piece of memory, aligned to kDctCropAlignment:
//   DctCrop, then its rows (DctCropRow), then the bytes of each row:
//     dc       int16 per block, not a difference
//     lengths  a byte per block: the number of its mask bytes
//     masks, values, escapes  as in a segment (dct_segment.h)
//     wide     int16 for each -128 in escapes, forwards, at an even address
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct_blocks.h"
#include "stoker/codecs/jpeg/plane_plan.h"

namespace stoker {

inline constexpr std::size_t kDctCropAlignment = 16;

// A component's decoded samples, as far as the box needs them: whole blocks.
struct DctCropPlane {
    std::uint32_t at = 0;     // of its first sample, among those of all planes; a multiple of 8
    std::int32_t stride = 0;  // samples in a row
    std::int32_t top = 0;     // of its first sample in the component
    std::int32_t left = 0;
    std::int32_t width = 0;  // of the whole component
    std::int32_t height = 0;
    std::int32_t scale_h = 1;  // pixels per sample
    std::int32_t scale_v = 1;
    std::int32_t smooth_h = 0;  // upsampling (plane_plan.h)
    std::int32_t smooth_v = 0;
    std::uint16_t quant[kBlockSize] = {};  // natural order
};

// Blocks of one block row of a component.
struct DctCropRow {
    std::uint32_t at = 0;      // of its bytes in the crop; even
    std::uint32_t sample = 0;  // of its first block's first sample, among those of all planes
    std::uint32_t values = 0;  // these three: in the row's bytes
    std::uint32_t escapes = 0;
    std::uint32_t wide = 0;
    std::uint16_t blocks = 0;
    std::uint8_t component = 0;
    std::uint8_t odd = 0;  // 1: the first value is in the high half of its byte
};

struct DctCrop {
    Box box{};                // of the image: the pixels that it gives
    std::uint32_t color = 0;  // FrameColor
    std::uint32_t components = 0;
    std::uint32_t rows = 0;
    std::uint32_t samples = 0;  // of all planes
    std::uint32_t pieces = 0;   // of a JPEG's scan, in the place of rows
    DctCropPlane planes[3] = {};
};
static_assert(sizeof(DctCropPlane) == 168 && sizeof(DctCropRow) == 24 && sizeof(DctCrop) == 540);
static_assert(std::is_trivially_copyable_v<DctCrop> && std::is_trivially_copyable_v<DctCropRow>);

// The MCUs that a box needs.
struct CropMcus {
    int row = 0;
    int end_row = 0;
    int column = 0;
    int end_column = 0;
};

// Sets a crop's head, without its rows or pieces.
CropMcus plan_crop(const JpegFrame& frame, const Box& box, DctCrop& head, PlanePlan (&plans)[3]);

// Use one per thread; it reuses its memory. All functions throw DataError where DctDecoder does for the same region.
class DctCropper {
  public:
    explicit DctCropper(const SegmentKernels& kernels = best_segment_kernels(),
                        const AnsKernels& ans_kernels = best_ans_kernels())
        : blocks_(kernels, ans_kernels) {}

    // The caller keeps the record alive until the last call of `crop`.
    ImageInfo open(std::span<const std::byte> record);

    // The crop for a box of the image, valid until the next call; empty where it would have more than `most` bytes.
    std::span<const std::byte> crop(const Box& box, std::size_t most);

  private:
    bool add_row(int component, int block_row, std::size_t most);

    DctBlocks blocks_;
    DctCrop head_;
    std::vector<DctCropRow> rows_;
    std::vector<std::byte> bytes_;  // of the rows
    Buffer whole_;
};

}  // namespace stoker
