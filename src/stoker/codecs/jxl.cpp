// libjxl reports events: the header, the colours, the need of a buffer, the finished frame. Without a parallel runner
// it decodes in this thread. Its functions used here are the same from 0.7 to 0.11.
#include "stoker/codecs/jxl.h"

#include <fmt/format.h>
#include <jxl/decode.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/loaded_library.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

constexpr JxlPixelFormat kRgb = {
    .num_channels = 3, .data_type = JXL_TYPE_UINT8, .endianness = JXL_NATIVE_ENDIAN, .align = 0};

struct Libjxl {
    LoadedLibrary library{"libjxl.so.0.11", "libjxl.so.0.10", "libjxl.so.0.9", "libjxl.so.0.8", "libjxl.so.0.7"};
    decltype(&JxlDecoderCreate) create = nullptr;
    decltype(&JxlDecoderDestroy) destroy = nullptr;
    decltype(&JxlDecoderSubscribeEvents) subscribe = nullptr;
    decltype(&JxlDecoderSetCoalescing) set_coalescing = nullptr;
    decltype(&JxlDecoderSetInput) set_input = nullptr;
    decltype(&JxlDecoderCloseInput) close_input = nullptr;
    decltype(&JxlDecoderProcessInput) process = nullptr;
    decltype(&JxlDecoderGetBasicInfo) basic_info = nullptr;
    decltype(&JxlDecoderGetFrameHeader) frame_header = nullptr;
    decltype(&JxlDecoderImageOutBufferSize) buffer_size = nullptr;
    decltype(&JxlDecoderSetImageOutBuffer) set_buffer = nullptr;

    Libjxl() {
        library.find("JxlDecoderCreate", create);
        library.find("JxlDecoderDestroy", destroy);
        library.find("JxlDecoderSubscribeEvents", subscribe);
        library.find("JxlDecoderSetCoalescing", set_coalescing);
        library.find("JxlDecoderSetInput", set_input);
        library.find("JxlDecoderCloseInput", close_input);
        library.find("JxlDecoderProcessInput", process);
        library.find("JxlDecoderGetBasicInfo", basic_info);
        library.find("JxlDecoderGetFrameHeader", frame_header);
        library.find("JxlDecoderImageOutBufferSize", buffer_size);
        library.find("JxlDecoderSetImageOutBuffer", set_buffer);
    }
};

const Libjxl& libjxl() {
    static const Libjxl functions;
    functions.library.require("libjxl", "JPEG XL", "libjxl0.7, or a later one");
    return functions;
}

[[noreturn]] void refuse(const char* got) {
    throw DataError({}, {.where = "jxl", .expected = "a valid JPEG XL", .got = got});
}

// The events of a file.
class JxlEvents {
  public:
    // Reads the header. `layers`: each layer is a frame, before they are blended.
    JxlEvents(std::span<const std::byte> bytes, int events, bool layers)
        : lib_(libjxl()), bytes_(bytes), decoder_(lib_.create(nullptr), lib_.destroy) {
        if (decoder_ == nullptr) {
            throw IoError({.where = "host memory", .expected = "memory to decode a JPEG XL", .got = "none"});
        }
        if (lib_.subscribe(decoder_.get(), JXL_DEC_BASIC_INFO | events) != JXL_DEC_SUCCESS ||
            lib_.set_coalescing(decoder_.get(), layers ? JXL_FALSE : JXL_TRUE) != JXL_DEC_SUCCESS ||
            lib_.set_input(decoder_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) !=
                JXL_DEC_SUCCESS) {
            refuse("one that libjxl does not take");
        }
        lib_.close_input(decoder_.get());
        if (next() != JXL_DEC_BASIC_INFO || lib_.basic_info(decoder_.get(), &info_) != JXL_DEC_SUCCESS) {
            refuse("one without a header");
        }
    }

    const JxlBasicInfo& info() const { return info_; }

    JxlDecoderStatus next() {
        const JxlDecoderStatus status = lib_.process(decoder_.get());
        if (status == JXL_DEC_NEED_MORE_INPUT) {
            throw_truncated("jxl", "JPEG XL", bytes_.size());
        }
        if (status == JXL_DEC_ERROR) {
            refuse("damaged data, or a feature that libjxl does not support");
        }
        return status;
    }

    JxlFrameHeader frame() const {
        JxlFrameHeader header{};
        if (lib_.frame_header(decoder_.get(), &header) != JXL_DEC_SUCCESS) {
            refuse("a frame without a header");
        }
        return header;
    }

    void set_buffer(Image& pixels) {
        std::size_t size = 0;
        if (lib_.buffer_size(decoder_.get(), &kRgb, &size) != JXL_DEC_SUCCESS || size != pixels.bytes() ||
            lib_.set_buffer(decoder_.get(), &kRgb, pixels.view().data, size) != JXL_DEC_SUCCESS) {
            refuse("one whose pixels libjxl does not convert to RGB");
        }
    }

  private:
    const Libjxl& lib_;
    std::span<const std::byte> bytes_;
    std::unique_ptr<JxlDecoder, decltype(&JxlDecoderDestroy)> decoder_;
    JxlBasicInfo info_{};
};

struct Layers {
    std::uint64_t count = 0;
    std::uint64_t most_pixels = 0;
};

// The layers of the first picture, which may be larger than it; none is decoded. libjxl does not report frames that
// are never shown themselves, but only referred to: their memory is not counted.
Layers read_layers(std::span<const std::byte> bytes) {
    constexpr std::uint64_t kMostLayers = 4096;
    JxlEvents file(bytes, JXL_DEC_FRAME, true);
    const std::uint64_t image = std::uint64_t{file.info().ysize} * file.info().xsize;
    const std::uint64_t most = std::min<std::uint64_t>(kMaxPixels, 4 * image + (std::uint64_t{1} << 20));
    Layers layers;
    for (bool last = false; !last && file.next() == JXL_DEC_FRAME;) {
        const JxlFrameHeader header = file.frame();
        const std::uint64_t height = header.layer_info.ysize;
        const std::uint64_t width = header.layer_info.xsize;
        if (width != 0 && height > most / width) {
            throw DataError({}, {.where = "jxl",
                                 .expected = fmt::format("layers of at most {} pixels", most),
                                 .got = fmt::format("{} x {}", height, width)});
        }
        layers.most_pixels = std::max(layers.most_pixels, height * width);
        if (++layers.count > kMostLayers) {
            throw DataError({},
                            {.where = "jxl", .expected = fmt::format("at most {} layers", kMostLayers), .got = "more"});
        }
        last = header.is_last != JXL_FALSE || header.duration > 0;
    }
    return layers;
}

class JxlFile {
  public:
    JxlFile(std::span<const std::byte> bytes, int events, bool first_frames)
        : bytes_(bytes), events_(bytes, events, false), info_(events_.info()) {
        check_image_size("jxl", info_.ysize, info_.xsize);
        if (info_.have_animation != 0 && !first_frames) {
            throw DataError({}, {.where = "jxl",
                                 .expected = "one still image",
                                 .got = "an animated JPEG XL",
                                 .hint = "data.first_frame = true, or packing with --first-frame, reads its first "
                                         "frame; or save the frame that you need as a separate file"});
        }
    }

    int height() const { return static_cast<int>(info_.ysize); }
    int width() const { return static_cast<int>(info_.xsize); }
    int bits() const { return static_cast<int>(info_.bits_per_sample); }

    void read(Image& pixels) {
        // It holds all channels of the picture as floats while it decodes, and of up to four layers.
        const Layers layers = read_layers(bytes_);
        const std::uint64_t most = std::max(layers.most_pixels, std::uint64_t{info_.ysize} * info_.xsize);
        const std::uint64_t planes = layers.count > 1 ? 1 + std::min<std::uint64_t>(layers.count, 4) : 1;
        const MemoryClaim claim(4 * (3 + std::uint64_t{info_.num_extra_channels}) * most * planes, "a JPEG XL");
        pixels.reset(height(), width(), 3);
        bool done = false;
        for (JxlDecoderStatus status = events_.next(); status != JXL_DEC_SUCCESS; status = events_.next()) {
            if (status == JXL_DEC_NEED_IMAGE_OUT_BUFFER) {
                events_.set_buffer(pixels);
            } else if (status == JXL_DEC_FULL_IMAGE) {
                done = true;
                if (info_.have_animation != 0) {
                    return;
                }
            } else {
                refuse("one with an unknown part");
            }
        }
        if (!done) {
            refuse("one without a frame");
        }
    }

  private:
    std::span<const std::byte> bytes_;
    JxlEvents events_;
    const JxlBasicInfo info_;
};

}  // namespace

bool is_jxl(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.starts_with("\xff\x0a"sv) || text.starts_with("\0\0\0\x0cJXL \x0d\x0a\x87\x0a"sv);
}

ImageInfo JxlImageDecoder::info(std::span<const std::byte> bytes) const {
    const JxlFile file(bytes, 0, first_frames_);
    return {.codec = Codec::jxl, .height = file.height(), .width = file.width(), .bits = file.bits()};
}

void JxlImageDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    JxlFile file(bytes, JXL_DEC_FULL_IMAGE, first_frames_);
    const Box box = checked_region(sink, file.height(), file.width()).box;
    file.read(pixels_);
    write_image(pixels_.view().crop(box), sink);
    sink.finish();
}

}  // namespace stoker
