// JPEG to RGB rows through libjpeg-turbo: baseline, progressive, grey, CMYK and YCCK, with the exact
// (slow integer) inverse DCT and smooth chroma upsampling, so pixels equal Pillow's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg_guard.h"

namespace stoker {

// A progressive file may hold any number of scans, each a pass over the whole image: a few bytes could
// cost hours. Encoders write about ten.
inline constexpr int kMaxJpegScans = 500;

// One libjpeg object for many images. Both calls throw DataError.
class JpegDecoder {
  public:
    JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;
    ~JpegDecoder();

    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    class Session;
    struct Callbacks;

    void read_header(std::span<const std::byte> bytes);
    void read_rows(RowSink& sink);
    [[noreturn]] void fail();

    JpegGuard guard_;
    jpeg_decompress_struct codec_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    decltype(jpeg_memory_mgr::alloc_small) alloc_small_ = nullptr;  // libjpeg's own
    std::size_t size_ = 0;                                          // bytes of the image at hand
    int orientation_ = 0;                                           // 0 until its EXIF block was seen
    std::vector<std::uint8_t> cmyk_;                                // one row, (W, 4)
};

}  // namespace stoker
