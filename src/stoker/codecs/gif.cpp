// giflib reads the blocks of a GIF one by one, and a frame row by row. The part of the canvas outside of the
// first frame has the transparent colour, or colour 0 if there is none, as in Pillow; a frame beyond the canvas makes
// it larger.
#include "stoker/codecs/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/codecs/loaded_library.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

struct Giflib {
    LoadedLibrary library{"libgif.so.7"};
    decltype(&DGifOpen) open = nullptr;
    decltype(&DGifCloseFile) close = nullptr;
    decltype(&DGifGetRecordType) record = nullptr;
    decltype(&DGifGetImageDesc) image = nullptr;
    decltype(&DGifGetLine) line = nullptr;
    decltype(&DGifGetCode) code = nullptr;
    decltype(&DGifGetCodeNext) next_code = nullptr;
    decltype(&DGifGetExtension) extension = nullptr;
    decltype(&DGifGetExtensionNext) next_extension = nullptr;
    decltype(&GifErrorString) error = nullptr;

    Giflib() {
        library.find("DGifOpen", open);
        library.find("DGifCloseFile", close);
        library.find("DGifGetRecordType", record);
        library.find("DGifGetImageDesc", image);
        library.find("DGifGetLine", line);
        library.find("DGifGetCode", code);
        library.find("DGifGetCodeNext", next_code);
        library.find("DGifGetExtension", extension);
        library.find("DGifGetExtensionNext", next_extension);
        library.find("GifErrorString", error);
    }
};

const Giflib& giflib() {
    static const Giflib functions;
    functions.library.require("giflib", "GIF", "libgif7");
    return functions;
}

// A file whose blocks up to the first frame's pixels have been read.
class GifFile {
  public:
    explicit GifFile(std::span<const std::byte> bytes) : lib_(giflib()), bytes_(bytes) {
        int error = 0;
        file_ = lib_.open(this, read, &error);
        if (file_ == nullptr) {
            fail(error);
        }
        try {
            if (!find_frame()) {
                throw DataError({}, {.where = "gif", .expected = "a GIF with a frame", .got = "none"});
            }
        } catch (...) {
            close();
            throw;
        }
    }
    GifFile(const GifFile&) = delete;
    GifFile& operator=(const GifFile&) = delete;
    ~GifFile() { close(); }

    const GifImageDesc& frame() const { return file_->Image; }
    int height() const { return std::max(file_->SHeight, frame().Top + frame().Height); }
    int width() const { return std::max(file_->SWidth, frame().Left + frame().Width); }
    int background() const { return std::max(transparent_, 0); }

    // Indices beyond the palette are shades of grey, as in Pillow.
    std::array<GifColorType, 256> palette() const {
        std::array<GifColorType, 256> colors{};
        for (std::size_t i = 0; i < colors.size(); ++i) {
            const auto level = static_cast<GifByteType>(i);
            colors[i] = {level, level, level};
        }
        const ColorMapObject* map = frame().ColorMap != nullptr ? frame().ColorMap : file_->SColorMap;
        if (map != nullptr) {
            std::copy_n(map->Colors, std::min(map->ColorCount, 256), colors.begin());
        }
        return colors;
    }

    void read_frame(ImageView indices) {
        constexpr std::array<std::array<int, 2>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};  // first row, step
        const std::size_t passes = frame().Interlace ? kPasses.size() : 1;
        for (std::size_t pass = 0; pass < passes; ++pass) {
            const auto [first, step] = frame().Interlace ? kPasses[pass] : std::array{0, 1};
            for (int y = first; y < indices.height; y += step) {
                check(lib_.line(file_, indices.row(y), indices.width));
            }
        }
    }

    void skip_frame() {
        int size = 0;
        GifByteType* block = nullptr;
        check(lib_.code(file_, &size, &block));
        while (block != nullptr) {
            check(lib_.next_code(file_, &block));
        }
    }

    // Reads all that follows the first frame.
    void require_one_frame() {
        if (find_frame()) {
            throw DataError({}, {.where = "gif",
                                 .expected = "one still image",
                                 .got = "an animated GIF",
                                 .hint = "data.first_frame = true, or packing with --first-frame, reads its first "
                                         "frame; or save the frame that you need as a separate file"});
        }
    }

  private:
    static int read(GifFileType* file, GifByteType* to, int size) {
        auto& self = *static_cast<GifFile*>(file->UserData);
        const std::size_t count = std::min(static_cast<std::size_t>(size), self.bytes_.size() - self.position_);
        std::memcpy(to, self.bytes_.data() + self.position_, count);
        self.position_ += count;
        self.ended_ = self.ended_ || count < static_cast<std::size_t>(size);
        return static_cast<int>(count);
    }

    // Reads up to the pixels of the next frame. False at the end of the file.
    bool find_frame() {
        for (;;) {
            GifRecordType type = UNDEFINED_RECORD_TYPE;
            check(lib_.record(file_, &type));
            if (type == TERMINATE_RECORD_TYPE) {
                return false;
            }
            if (type == IMAGE_DESC_RECORD_TYPE) {
                check(lib_.image(file_));
                return true;
            }
            if (type == EXTENSION_RECORD_TYPE) {
                read_extension();
            }
        }
    }

    void read_extension() {
        int code = 0;
        GifByteType* block = nullptr;  // its size, then its bytes
        check(lib_.extension(file_, &code, &block));
        if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] >= 4) {
            transparent_ = (block[1] & 1) != 0 ? block[4] : -1;
        }
        while (block != nullptr) {
            check(lib_.next_extension(file_, &block));
        }
    }

    void check(int status) const {
        if (status != GIF_OK) {
            fail(file_->Error);
        }
    }

    [[noreturn]] void fail(int error) const {
        if (ended_) {
            throw_truncated("gif", "GIF", bytes_.size());
        }
        if (error == D_GIF_ERR_NOT_ENOUGH_MEM) {
            throw IoError({.where = "host memory", .expected = "memory to decode a GIF", .got = "none"});
        }
        const char* text = lib_.error(error);
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(position_)},
                        {.where = "gif", .expected = "a valid GIF", .got = text != nullptr ? text : "damaged data"});
    }

    void close() {
        int error = 0;
        lib_.close(file_, &error);
    }

    const Giflib& lib_;
    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
    bool ended_ = false;  // giflib wanted more bytes than there are
    GifFileType* file_ = nullptr;
    int transparent_ = -1;
};

void check_sizes(const GifFile& file) {
    check_image_size("gif", file.frame().Height, file.frame().Width);
    check_image_size("gif", file.height(), file.width());
}

}  // namespace

bool is_gif(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.starts_with("GIF87a") || text.starts_with("GIF89a");
}

ImageInfo GifDecoder::info(std::span<const std::byte> bytes) const {
    GifFile file(bytes);
    check_sizes(file);
    const ImageInfo info{.codec = Codec::gif, .height = file.height(), .width = file.width()};
    if (!first_frames_) {
        file.skip_frame();
        file.require_one_frame();
    }
    return info;
}

void GifDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    GifFile file(bytes);
    check_sizes(file);
    const int left = file.frame().Left;
    const int top = file.frame().Top;
    const std::array<GifColorType, 256> palette = file.palette();
    const int background = file.background();
    const Box box = checked_region(sink, file.height(), file.width()).box;
    indices_.reset(file.frame().Height, file.frame().Width, 1);
    const ImageView indices = indices_.view();
    file.read_frame(indices);
    if (!first_frames_) {
        file.require_one_frame();
    }
    sink.start(box.height, box.width, 3);
    for (int y = box.top; y < box.top + box.height; ++y) {
        std::uint8_t* to = sink.row(y - box.top);
        const bool in_rows = y >= top && y < top + indices.height;
        for (int x = box.left; x < box.left + box.width; ++x, to += 3) {
            const bool inside = in_rows && x >= left && x < left + indices.width;
            const GifColorType& color =
                palette[static_cast<std::size_t>(inside ? indices.row(y - top)[x - left] : background)];
            to[0] = color.Red;
            to[1] = color.Green;
            to[2] = color.Blue;
        }
    }
    sink.finish();
}

}  // namespace stoker
