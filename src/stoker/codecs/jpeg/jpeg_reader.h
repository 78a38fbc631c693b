// One libjpeg decompressor over bytes in memory, for many images: headers, memory, errors. What is done with
// an opened image is up to jpeg.cpp (pixels) and jpeg_blocks.cpp (coefficients). Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg/jpeg_guard.h"

namespace stoker {

// A progressive file may hold any number of scans, each a pass over the whole image: a few bytes could
// cost hours. Encoders write about ten.
inline constexpr int kMaxJpegScans = 500;

class JpegReader {
  public:
    JpegReader();
    JpegReader(const JpegReader&) = delete;
    JpegReader& operator=(const JpegReader&) = delete;
    ~JpegReader();

    // Reads the header; throws DataError. While an image is open the reader is its. Whatever happens to
    // the image, the reader is fit for the next one afterwards.
    class Session {
      public:
        Session(JpegReader& reader, std::span<const std::byte> bytes);
        Session(const Session&) = delete;
        Session& operator=(const Session&) = delete;
        ~Session();

      private:
        JpegReader& reader_;
    };

    jpeg_decompress_struct& codec() { return codec_; }
    ImageInfo info() const;

    // The bytes that libjpeg has not taken yet.
    std::span<const std::byte> rest() const;

    // Runs calls of libjpeg, as JpegGuard does; throws DataError where they fail.
    template <typename Call>
    void run(Call call) {
        if (!guard_.run(call)) {
            fail();
        }
    }

  private:
    struct Callbacks;

    void read_header(std::span<const std::byte> bytes);
    void close();
    [[noreturn]] void fail() const;

    JpegGuard guard_;
    jpeg_decompress_struct codec_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    decltype(jpeg_memory_mgr::alloc_small) alloc_small_ = nullptr;  // libjpeg's own
    std::size_t size_ = 0;                                          // bytes of the image at hand
    int orientation_ = 0;                                           // 0 until its EXIF block was seen
};

}  // namespace stoker
