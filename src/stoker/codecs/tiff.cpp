// libtiff decodes strips and tiles to the host's byte order and undoes their predictor; their rows are placed here. An
// uncompressed YCbCr image goes through libtiff's own conversion to RGBA.
#include "stoker/codecs/tiff.h"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/float16.h"
#include "stoker/base/image.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/tiff_source.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

constexpr int kMostBands = 64;

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "tiff", .expected = std::move(expected), .got = std::move(got)});
}

// Decompressors of formats that occur, and that are safe with hostile bytes: JBIG-Kit ends the process.
constexpr std::uint16_t kCompressions[] = {COMPRESSION_NONE,      COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                           COMPRESSION_CCITTFAX4, COMPRESSION_LZW,      COMPRESSION_JPEG,
                                           COMPRESSION_DEFLATE,   COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE,
                                           COMPRESSION_LZMA,      COMPRESSION_ZSTD,     COMPRESSION_WEBP};

// The bands of a picture without its transparency.
int bands_without_alpha(TIFF* tiff, int bands, int colors) {
    std::uint16_t count = 0;
    std::uint16_t* extra = nullptr;
    const bool has_extra = TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &extra) == 1;
    const bool alpha = has_extra && count == 1 && bands == colors + 1 && *extra != EXTRASAMPLE_UNSPECIFIED;
    return alpha ? colors : bands;
}

using Palette = std::array<const std::uint16_t*, 3>;  // 16 bits of red, green and blue

class TiffFile {
  public:
    TiffFile(std::span<const std::byte> bytes, const TiffOptions& options)
        : source_{.bytes = bytes}, options_(options), tiff_(open_tiff(source_), &TIFFClose) {
        if (tiff_ == nullptr) {
            refuse("a TIFF", got());
        }
        if (options.page > 0 && TIFFSetSubDirectory(tiff_.get(), options.page) != 1) {
            refuse(fmt::format("a page of the TIFF at {}", options.page), got());
        }
        read_tags();
    }
    TiffFile(const TiffFile&) = delete;
    TiffFile& operator=(const TiffFile&) = delete;

    // The first, and those that are not thumbnails and masks. Afterwards the file can no longer be decoded.
    std::vector<std::uint64_t> pages(std::size_t most) {
        std::vector<std::uint64_t> found = {0};
        while (found.size() < most && TIFFReadDirectory(tiff_.get()) == 1) {
            if ((tag<std::uint32_t>(TIFFTAG_SUBFILETYPE, 0) & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == 0) {
                found.push_back(TIFFCurrentDirOffset(tiff_.get()));
            }
        }
        return found;
    }

    // Upright.
    TiffImage image() const {
        TiffImage upright = image_;
        upright.channels = wanted_channels();
        if (turns_sides()) {
            std::swap(upright.height, upright.width);
        }
        return upright;
    }

    void decode(Buffer& out) {
        const std::uint64_t size = row_bytes() * static_cast<std::uint64_t>(image_.height);
        require_memory(size, "a TIFF");
        source_.error.front() = '\0';  // an earlier one did not keep the header from being read
        Buffer stored;
        Buffer& to = orientation_ == ORIENTATION_TOPLEFT ? out : stored;
        to.resize(static_cast<std::size_t>(size));
        if (photometric_ == PHOTOMETRIC_YCBCR && compression_ != COMPRESSION_JPEG) {
            decode_as_rgba(to);
        } else {
            decode_blocks(to);
        }
        if (&to == &stored) {
            turn(stored.bytes(), out);
        }
        if (wanted_channels() == 3 && image_.channels == 1) {
            repeat(out);
        } else if (wanted_channels() != image_.channels) {
            to_grey(out);
        }
    }

  private:
    using Handle = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

    template <typename T>
    T tag(std::uint32_t name, T otherwise) const {
        T value = otherwise;
        return TIFFGetFieldDefaulted(tiff_.get(), name, &value) == 1 ? value : otherwise;
    }

    std::string got() const { return source_.error.front() == '\0' ? "damaged data" : source_.error.data(); }

    void read_tags() {
        const auto width = tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0);
        const auto height = tag<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0);
        stored_bands_ = tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
        photometric_ = tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        compression_ = tag<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
        orientation_ = tag<std::uint16_t>(TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
        separate_ = tag<std::uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
        bits_ = tag<std::uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
        format_ = tag<std::uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
        if (width == 0 || height == 0 || std::uint64_t{width} * height > std::uint64_t{kMaxPixels}) {
            refuse(fmt::format("1 to {} pixels", kMaxPixels), fmt::format("{} x {}", height, width));
        }
        if (std::ranges::find(kCompressions, compression_) == std::end(kCompressions)) {
            refuse("a compression of docs/codecs.md", fmt::format("number {}", compression_));
        }
        if (stored_bands_ < 1 || stored_bands_ > kMostBands) {
            refuse(fmt::format("1 to {} bands", kMostBands), fmt::to_string(stored_bands_));
        }
        if (orientation_ < ORIENTATION_TOPLEFT || orientation_ > ORIENTATION_LEFTBOT) {
            orientation_ = ORIENTATION_TOPLEFT;  // as Pillow
        }
        image_ = {.height = static_cast<int>(height), .width = static_cast<int>(width), .bits = bits_};
        read_colors();
        image_.dtype = dtype();
        check_size();
    }

    // A short file does not make a large image without compression.
    void check_size() const {
        const std::uint64_t size = (std::uint64_t{static_cast<unsigned>(bits_)} * static_cast<unsigned>(stored_bands_) *
                                        static_cast<unsigned>(image_.width) +
                                    7) /
                                   8 * static_cast<unsigned>(image_.height);
        if (compression_ == COMPRESSION_NONE && photometric_ != PHOTOMETRIC_YCBCR && size > source_.bytes.size()) {
            refuse(fmt::format("{} bytes of pixels", size), fmt::format("a file of {}", source_.bytes.size()));
        }
    }

    bool is_unsigned() const { return format_ == SAMPLEFORMAT_UINT || format_ == SAMPLEFORMAT_VOID; }

    void read_colors() {
        image_.channels = stored_bands_;
        switch (photometric_) {
            case PHOTOMETRIC_PALETTE:
                read_palette();
                break;
            case PHOTOMETRIC_YCBCR:
                if (options_.indices || stored_bands_ != 3 || bits_ != 8 || !is_unsigned() || separate_) {
                    refuse("YCbCr of three channels of 8 bits side by side, and not for a mask", channels_text());
                }
                if (compression_ == COMPRESSION_JPEG) {
                    TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
                }
                return;
            case PHOTOMETRIC_RGB:
                image_.channels = bands_without_alpha(tiff_.get(), stored_bands_, 3);
                break;
            case PHOTOMETRIC_MINISWHITE:
            case PHOTOMETRIC_MINISBLACK:
                image_.channels = bands_without_alpha(tiff_.get(), stored_bands_, 1);
                break;
            case PHOTOMETRIC_SEPARATED:
                break;
            default:
                refuse("grey, RGB, CMYK, YCbCr or a palette",
                       fmt::format("photometric interpretation {}", photometric_));
        }
        if (options_.indices && (image_.channels != 1 || bits_ > 8 || !is_unsigned())) {
            refuse("a mask of one channel of up to 8 bits", channels_text());
        }
    }

    void read_palette() {
        if (stored_bands_ != 1 || bits_ > 8 || !is_unsigned()) {
            refuse("a palette for one unsigned channel of up to 8 bits", channels_text());
        }
        if (options_.indices) {
            return;
        }
        std::array<std::uint16_t*, 3> colors{};
        if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &colors[0], &colors[1], &colors[2]) != 1) {
            refuse("a palette", "none");
        }
        palette_ = Palette{colors[0], colors[1], colors[2]};
        image_.channels = 3;
    }

    std::string channels_text() const { return fmt::format("{} of {} bits", stored_bands_, bits_); }

    DType dtype() const {
        if (format_ == SAMPLEFORMAT_IEEEFP) {
            switch (bits_) {
                case 16:
                case 32:
                    return DType::float32;
                case 64:
                    return DType::float64;
                default:
                    break;
            }
        } else if (format_ == SAMPLEFORMAT_INT && (bits_ == 8 || bits_ == 16)) {
            return DType::int16;
        } else if (format_ == SAMPLEFORMAT_INT || format_ == SAMPLEFORMAT_UINT || format_ == SAMPLEFORMAT_VOID) {
            switch (bits_) {
                case 1:
                case 2:
                case 4:
                    if (format_ == SAMPLEFORMAT_INT || stored_bands_ != 1) {
                        break;
                    }
                    return DType::uint8;
                case 8:
                    return DType::uint8;
                case 16:
                    return DType::uint16;
                case 32:
                    return DType::float32;
                default:
                    break;
            }
        }
        refuse("1, 2 or 4 bits of one channel, integers of 8, 16 or 32 bits, or floats of 16, 32 or 64",
               fmt::format("{}, sample format {}", channels_text(), format_));
    }

    std::size_t pixel_bytes() const { return static_cast<std::size_t>(image_.channels) * item_size(image_.dtype); }
    std::uint64_t row_bytes() const { return std::uint64_t{pixel_bytes()} * static_cast<std::uint64_t>(image_.width); }
    bool turns_sides() const { return orientation_ >= ORIENTATION_LEFTTOP; }

    int wanted_channels() const {
        const bool converts = image_.channels == 1 || image_.channels == 3;
        return converts && options_.channels != 0 ? options_.channels : image_.channels;
    }

    // Three equal channels of one.
    void repeat(Buffer& pixels) const {
        const std::size_t item = item_size(image_.dtype);
        require_memory(4 * pixels.size(), "a TIFF");
        Buffer grey(pixels.size());
        std::ranges::copy(pixels.bytes(), grey.data());
        pixels.resize(3 * grey.size());
        for (std::size_t at = 0; at < grey.size(); at += item) {
            for (std::size_t c = 0; c < 3; ++c) {
                std::copy_n(grey.data() + at, item, pixels.data() + 3 * at + c * item);
            }
        }
    }

    void to_grey(Buffer& pixels) const {
        switch (image_.dtype) {
            case DType::uint8:
                return to_grey_as<std::uint8_t>(pixels);
            case DType::uint16:
                return to_grey_as<std::uint16_t>(pixels);
            case DType::int16:
                return to_grey_as<std::int16_t>(pixels);
            case DType::float32:
                return to_grey_as<float>(pixels);
            case DType::float64:
                return to_grey_as<double>(pixels);
            default:
                refuse("a type whose channels can be mixed, for data.channels = 1",
                       std::string(dtype_name(image_.dtype)));
        }
    }

    // With the weights of Pillow's convert("L").
    template <typename T>
    static void to_grey_as(Buffer& pixels) {
        const std::size_t count = pixels.size() / (3 * sizeof(T));
        for (std::size_t i = 0; i < count; ++i) {
            std::array<T, 3> rgb;
            std::memcpy(rgb.data(), pixels.data() + i * sizeof rgb, sizeof rgb);
            const double grey = (rgb[0] * 19595.0 + rgb[1] * 38470.0 + rgb[2] * 7471.0) / 65536;
            const T value = static_cast<T>(std::is_integral_v<T> ? std::floor(grey + 0.5) : grey);
            std::memcpy(pixels.data() + i * sizeof value, &value, sizeof value);
        }
        pixels.resize(count * sizeof(T));
    }

    void decode_as_rgba(Buffer& out) {
        const auto pixels = static_cast<std::size_t>(image_.height) * static_cast<std::size_t>(image_.width);
        require_memory(pixels * sizeof(std::uint32_t), "a TIFF");
        std::vector<std::uint32_t> raster(pixels);
        if (TIFFReadRGBAImageOriented(tiff_.get(), static_cast<std::uint32_t>(image_.width),
                                      static_cast<std::uint32_t>(image_.height), raster.data(), orientation_, 1) != 1) {
            refuse("sound pixels", got());
        }
        std::byte* to = out.data();
        for (const std::uint32_t pixel : raster) {
            *to++ = static_cast<std::byte>(TIFFGetR(pixel));
            *to++ = static_cast<std::byte>(TIFFGetG(pixel));
            *to++ = static_cast<std::byte>(TIFFGetB(pixel));
        }
    }

    // A strip is a tile of the image's width.
    void decode_blocks(Buffer& out) {
        const bool tiled = TIFFIsTiled(tiff_.get()) != 0;
        const auto height = static_cast<std::uint32_t>(image_.height);
        const auto width = static_cast<std::uint32_t>(image_.width);
        const auto block_width = tiled ? tag<std::uint32_t>(TIFFTAG_TILEWIDTH, 0) : width;
        const auto block_height = tiled ? tag<std::uint32_t>(TIFFTAG_TILELENGTH, 0)
                                        : std::min(tag<std::uint32_t>(TIFFTAG_ROWSPERSTRIP, height), height);
        const tmsize_t size = tiled ? TIFFTileSize(tiff_.get()) : TIFFStripSize(tiff_.get());
        const tmsize_t row = tiled ? TIFFTileRowSize(tiff_.get()) : TIFFScanlineSize(tiff_.get());
        if (block_width == 0 || block_height == 0 || size <= 0 || row <= 0 ||
            size / row < static_cast<tmsize_t>(block_height)) {
            refuse("strips or tiles of pixels", got());
        }
        constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;
        const std::uint64_t most = std::max(kSmall, 4 * row_bytes() * height);
        if (static_cast<std::uint64_t>(size) > most) {
            refuse(fmt::format("strips or tiles of at most {} bytes", most), fmt::to_string(size));
        }
        require_memory(static_cast<std::uint64_t>(size), "a TIFF's tile");
        Buffer block(static_cast<std::size_t>(size));
        const int planes = separate_ ? stored_bands_ : 1;
        std::uint32_t number = 0;
        for (int plane = 0; plane < planes; ++plane) {
            for (std::uint32_t top = 0; top < height; top += std::min(block_height, height - top)) {
                for (std::uint32_t left = 0; left < width; left += std::min(block_width, width - left), ++number) {
                    if (plane >= stored_channels()) {  // transparency
                        continue;
                    }
                    if (compression_ == COMPRESSION_JPEG) {  // a damaged one may leave pixels out
                        std::ranges::fill(block.bytes(), std::byte{0});
                    }
                    const tmsize_t read = tiled ? TIFFReadEncodedTile(tiff_.get(), number, block.data(), size)
                                                : TIFFReadEncodedStrip(tiff_.get(), number, block.data(), size);
                    const std::uint32_t rows = std::min(block_height, height - top);
                    if (read < static_cast<tmsize_t>(rows) * row || source_.error.front() != '\0') {
                        refuse("sound pixels", got());
                    }
                    const std::uint32_t columns = std::min(block_width, width - left);
                    for (std::uint32_t y = 0; y < rows; ++y) {
                        place_row(block.data() + static_cast<std::size_t>(row) * y, columns,
                                  out.data() + row_bytes() * (top + y) + pixel_bytes() * left, plane);
                    }
                }
            }
        }
    }

    int stored_channels() const { return palette_ ? 1 : image_.channels; }

    // `from` holds the stored row of all bands, or of `plane` alone.
    void place_row(const std::byte* from, std::uint32_t columns, std::byte* to, int plane) const {
        if (bits_ < 8 || image_.dtype == DType::uint8) {
            place_bytes(from, columns, to, plane);
        } else if (image_.dtype == DType::int16 && bits_ == 8) {
            place<std::int8_t, std::int16_t>(from, columns, to, plane);
        } else if (image_.dtype == DType::float32 && format_ != SAMPLEFORMAT_IEEEFP) {
            if (format_ == SAMPLEFORMAT_INT) {
                place<std::int32_t, float>(from, columns, to, plane);
            } else {
                place<std::uint32_t, float>(from, columns, to, plane);
            }
        } else if (format_ == SAMPLEFORMAT_IEEEFP && bits_ == 16) {
            place<std::uint16_t, float>(from, columns, to, plane, from_float16);
        } else if (item_size(image_.dtype) == 2) {
            place<std::uint16_t, std::uint16_t>(from, columns, to, plane);
        } else if (item_size(image_.dtype) == 4) {
            place<float, float>(from, columns, to, plane);
        } else {
            place<double, double>(from, columns, to, plane);
        }
    }

    template <typename From, typename To, typename Convert = To (*)(From)>
    void place(
        const std::byte* from, std::uint32_t columns, std::byte* to, int plane,
        Convert convert = [](From element) { return static_cast<To>(element); }) const {
        const int first = separate_ ? plane : 0;
        const int taken = separate_ ? 1 : image_.channels;
        const int stride = separate_ ? 1 : stored_bands_;
        for (std::uint32_t x = 0; x < columns; ++x) {
            for (int c = 0; c < taken; ++c) {
                From element;
                std::memcpy(&element, from + (static_cast<std::size_t>(x) * stride + c) * sizeof(From), sizeof element);
                const To converted = convert(element);
                std::memcpy(to + x * pixel_bytes() + static_cast<std::size_t>(first + c) * sizeof(To), &converted,
                            sizeof converted);
            }
        }
    }

    void place_bytes(const std::byte* from, std::uint32_t columns, std::byte* to, int plane) const {
        if (bits_ == 8 && !palette_ && photometric_ != PHOTOMETRIC_MINISWHITE) {
            place<std::uint8_t, std::uint8_t>(from, columns, to, plane);
            return;
        }
        const bool inverted = photometric_ == PHOTOMETRIC_MINISWHITE && !options_.indices;
        const unsigned top = (1U << bits_) - 1;
        const int stride = bits_ < 8 || separate_ ? 1 : stored_bands_;
        const int taken = separate_ || palette_ ? 1 : image_.channels;
        for (std::uint32_t x = 0; x < columns; ++x) {
            for (int c = 0; c < taken; ++c) {
                const std::size_t bit = (static_cast<std::size_t>(x) * stride + c) * bits_;
                const unsigned value = std::to_integer<unsigned>(from[bit / 8]) >> (8 - bits_ - bit % 8) & top;
                std::byte* pixel = to + x * pixel_bytes();
                if (palette_) {
                    for (std::size_t color = 0; color < 3; ++color) {
                        pixel[color] = static_cast<std::byte>((*palette_)[color][value] >> 8);
                    }
                } else {
                    const unsigned scaled = options_.indices ? value : value * 255 / top;
                    pixel[separate_ ? plane : c] = static_cast<std::byte>(inverted ? 255 - scaled : scaled);
                }
            }
        }
    }

    // The pixel at (y, x) of the stored image goes to its upright place.
    void turn(std::span<const std::byte> stored, Buffer& out) const {
        out.resize(stored.size());
        const TiffImage upright = image();
        const std::size_t pixel = pixel_bytes();
        const bool from_right = orientation_ == ORIENTATION_TOPRIGHT || orientation_ == ORIENTATION_BOTRIGHT ||
                                orientation_ == ORIENTATION_RIGHTTOP || orientation_ == ORIENTATION_RIGHTBOT;
        const bool from_bottom = orientation_ == ORIENTATION_BOTRIGHT || orientation_ == ORIENTATION_BOTLEFT ||
                                 orientation_ == ORIENTATION_RIGHTBOT || orientation_ == ORIENTATION_LEFTBOT;
        const std::byte* from = stored.data();
        for (int y = 0; y < image_.height; ++y) {
            for (int x = 0; x < image_.width; ++x, from += pixel) {
                const int row = turns_sides() ? x : y;
                const int column = turns_sides() ? y : x;
                const int to_row = from_bottom ? upright.height - 1 - row : row;
                const int to_column = from_right ? upright.width - 1 - column : column;
                const auto place = static_cast<std::size_t>(to_row) * static_cast<std::size_t>(upright.width) +
                                   static_cast<std::size_t>(to_column);
                std::copy_n(from, pixel, out.data() + place * pixel);
            }
        }
    }

    TiffSource source_;
    TiffOptions options_;
    Handle tiff_;
    TiffImage image_;
    std::optional<Palette> palette_;
    int stored_bands_ = 1;
    int bits_ = 1;
    std::uint16_t photometric_ = PHOTOMETRIC_MINISBLACK;
    std::uint16_t compression_ = COMPRESSION_NONE;
    std::uint16_t orientation_ = ORIENTATION_TOPLEFT;
    std::uint16_t format_ = SAMPLEFORMAT_UINT;
    bool separate_ = false;
};

}  // namespace

bool is_tiff(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.starts_with("II*\0"sv) || text.starts_with("MM\0*"sv) || text.starts_with("II+\0"sv) ||
           text.starts_with("MM\0+"sv);
}

TiffImage read_tiff_header(std::span<const std::byte> bytes, const TiffOptions& options) {
    return TiffFile(bytes, options).image();
}

std::vector<std::uint64_t> tiff_pages(std::span<const std::byte> bytes, std::size_t most) {
    return TiffFile(bytes, {}).pages(most);
}

TiffImage decode_tiff(std::span<const std::byte> bytes, Buffer& out, const TiffOptions& options) {
    TiffFile file(bytes, options);
    file.decode(out);
    return file.image();
}

}  // namespace stoker
