// One libjpeg decompressor for many images in memory: header, memory, errors. jpeg.cpp reads pixels from an opened
// image, jpeg_blocks.cpp coefficients. Internal to codecs/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stoker/base/memory_limit.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg/jpeg_guard.h"

namespace stoker {

// A progressive file may contain any number of scans, and each is a pass over the whole image: without a limit, a small
// file could take hours. Encoders write about ten.
inline constexpr int kMaxJpegScans = 500;

// Bytes of all coefficients of an opened JPEG. libjpeg holds them in memory for a JPEG of several scans.
std::uint64_t coefficient_bytes(const jpeg_decompress_struct& codec);

class JpegReader {
  public:
    JpegReader();
    JpegReader(const JpegReader&) = delete;
    JpegReader& operator=(const JpegReader&) = delete;
    ~JpegReader();

    // Opens an image and reads its header; throws DataError. At most one session per reader at a time. The destructor
    // makes the reader ready for the next image, also after an error.
    class Session {
      public:
        Session(JpegReader& reader, std::span<const std::byte> bytes);
        Session(const Session&) = delete;
        Session& operator=(const Session&) = delete;
        ~Session();

      private:
        JpegReader& reader_;
    };

    // Claims the memory that libjpeg takes for the coefficients of all scans. The claim shrinks while libjpeg writes
    // them, since the system counts written memory, and ends with the session. Throws MemoryError.
    void claim_coefficients();
    void end_claim() { claim_.reset(); }

    jpeg_decompress_struct& codec() { return codec_; }
    ImageInfo info() const;

    // The bytes that libjpeg has not read yet.
    std::span<const std::byte> rest() const;

    // Runs libjpeg calls in a JpegGuard. Throws DataError if they fail.
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
    void shrink_claim();
    [[noreturn]] void fail() const;

    JpegGuard guard_;
    jpeg_decompress_struct codec_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    decltype(jpeg_memory_mgr::alloc_small) alloc_small_ = nullptr;  // libjpeg's own
    std::size_t size_ = 0;                                          // bytes of the open image
    int orientation_ = 0;                                           // 0 until an EXIF block is read
    std::optional<MemoryClaim> claim_;
    std::array<double, MAX_COMPONENTS> unwritten_{};  // shares of the components' coefficients
};

}  // namespace stoker
