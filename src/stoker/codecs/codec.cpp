// Detects the codec and calls its decoder. To apply an EXIF orientation, the image is decoded into memory of the
// Decoder first, because this needs the pixels in another order.
#include "stoker/codecs/codec.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/decoders.h"
#include "stoker/codecs/gif.h"
#include "stoker/codecs/heif.h"
#include "stoker/codecs/heif_boxes.h"
#include "stoker/codecs/j2k_header.h"
#include "stoker/codecs/jpeg/jpeg.h"
#include "stoker/codecs/jpeg/jpeg_index.h"
#include "stoker/codecs/jpeg2000.h"
#include "stoker/codecs/jxl.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/region.h"
#include "stoker/codecs/tiff.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

// Smaller JPEGs have few entry points, and are not worth a look-up.
constexpr std::size_t kLeastIndexedBytes = 8 * 1024;

constexpr std::string_view kJpegStart = "\xff\xd8\xff"sv;
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n"sv;

// Formats that we do not read, but that occur in data sets: the error names them, so that the user can convert them.
struct OtherFormat {
    std::size_t offset;
    std::string_view bytes;
    std::string_view name;
};
constexpr OtherFormat kOtherFormats[] = {
    {4, "ftyp"sv, "an MP4 file"sv},
    {0, "\x1f\x8b"sv, "gzip data"sv},
    {0, "PK\3\4"sv, "a zip archive"sv},
};

// Describes unknown bytes for an error. The text is safe to print.
std::string describe(std::span<const std::byte> bytes) {
    constexpr std::size_t shown = 16;
    if (bytes.empty()) {
        return "no bytes";
    }
    const std::string_view text = as_text(bytes);
    for (const OtherFormat& format : kOtherFormats) {
        if (text.size() >= format.offset && text.substr(format.offset).starts_with(format.bytes)) {
            return std::string(format.name);
        }
    }
    const std::string_view start = text.substr(0, shown);
    const char* more = text.size() > shown ? "..." : "";
    const bool printable = std::all_of(start.begin(), start.end(), [](char c) {
        return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
    });
    if (printable) {
        return fmt::format("text \"{}{}\"", start, more);
    }
    std::string hex = "bytes";
    for (const char c : start) {
        hex += fmt::format(" {:02x}", static_cast<unsigned char>(c));
    }
    return hex + more;
}

Codec require_codec(std::span<const std::byte> bytes) {
    if (const std::optional<Codec> codec = sniff_codec(bytes)) {
        return *codec;
    }
    throw DataError({.path = {}, .offset = 0},
                    {.where = "image",
                     .expected = "a JPEG, PNG, WebP, BMP, PNM, TIFF, AVIF, HEIC, JPEG XL, GIF or JPEG 2000 image",
                     .got = describe(bytes)});
}

// TIFFs do not decode to rows of RGB.
struct TiffFile {
    static ImageInfo info(std::span<const std::byte> bytes) {
        const TiffImage image = read_tiff_header(bytes, {.channels = 3});
        return {.codec = Codec::tiff,
                .height = image.height,
                .width = image.width,
                .bits = image.bits,
                .channels = image.channels};
    }
    static void decode(std::span<const std::byte> /*bytes*/, RowSink& /*sink*/) {
        throw DataError({}, {.where = "image", .expected = "an image that decodes to RGB", .got = "a TIFF"});
    }
};

// Stores one box of an image.
class BoxSink final : public RowSink {
  public:
    BoxSink(const Box& box, Image& image) : box_(box), image_(image) {}
    Region region(int /*height*/, int /*width*/) override { return {.box = box_}; }
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

  private:
    Box box_;
    Image& image_;
};

}  // namespace

std::string_view codec_name(Codec codec) {
    // In the order of Codec.
    constexpr std::string_view kNames[] = {"jpeg", "png",  "dct",  "dct-zstd", "webp", "bmp",      "pnm",
                                           "tiff", "avif", "heic", "jxl",      "gif",  "jpeg2000", "dct-ans"};
    return kNames[static_cast<std::size_t>(codec)];
}

std::optional<Codec> sniff_codec(std::span<const std::byte> bytes) {
    const std::string_view text = as_text(bytes);
    if (text.starts_with(kJpegStart)) {
        return Codec::jpeg;
    }
    if (text.starts_with(kPngStart)) {
        return Codec::png;
    }
    if (text.starts_with("RIFF"sv) && text.substr(std::min<std::size_t>(8, text.size())).starts_with("WEBP"sv)) {
        return Codec::webp;
    }
    if (is_bmp(bytes)) {
        return Codec::bmp;
    }
    if (is_pnm(bytes)) {
        return Codec::pnm;
    }
    if (is_tiff(bytes)) {
        return Codec::tiff;
    }
    if (is_gif(bytes)) {
        return Codec::gif;
    }
    if (is_jxl(bytes)) {
        return Codec::jxl;
    }
    if (is_jp2(bytes) || is_j2k(bytes)) {
        return Codec::jpeg2000;
    }
    if (const std::optional<Codec> heif = heif_codec(bytes)) {
        return heif;
    }
    return sniff_dct(bytes);
}

struct Decoder::State {
    JpegDecoder jpeg;
    PngDecoder png;
    WebpDecoder webp;
    BmpDecoder bmp;
    PnmDecoder pnm;
    DctDecoder dct;
    TiffFile tiff;
    HeifDecoder heif;
    JxlImageDecoder jxl;
    GifDecoder gif;
    Jpeg2000Decoder jpeg2000;
    Image stored;  // the decoded region before its orientation is applied
    JpegIndex* index = nullptr;
    EntryPointSlot points;

    // Calls `action` with the decoder for these bytes.
    template <typename Action>
    auto with_decoder(std::span<const std::byte> bytes, Action action) {
        switch (require_codec(bytes)) {
            case Codec::png:
                return action(png);
            case Codec::webp:
                return action(webp);
            case Codec::bmp:
                return action(bmp);
            case Codec::pnm:
                return action(pnm);
            case Codec::dct:
            case Codec::dct_zstd:
            case Codec::dct_ans:
                return action(dct);
            case Codec::tiff:
                return action(tiff);
            case Codec::avif:
            case Codec::heic:
                return action(heif);
            case Codec::jxl:
                return action(jxl);
            case Codec::gif:
                return action(gif);
            case Codec::jpeg2000:
                return action(jpeg2000);
            default:
                return action(jpeg);
        }
    }

    void accept_first_frames(bool accept) {
        webp.accept_first_frames(accept);
        heif.accept_first_frames(accept);
        jxl.accept_first_frames(accept);
        gif.accept_first_frames(accept);
    }

    bool uses_index(std::span<const std::byte> bytes) const {
        return index != nullptr && is_indexed_jpeg(bytes) && (index->takes_points() || index->bytes() > 0);
    }

    void decode_indexed(std::span<const std::byte> bytes, RowSink& sink) {
        const JpegKey key = jpeg_key(bytes);
        points = {.known = index->find(key), .complete = index->takes_points(), .grown = false};
        const bool known = !points.known.points.empty();
        jpeg.decode(bytes, sink, &points);
        if (known && points.known.points.empty()) {
            index->refuse(key);
        } else if (points.grown && !points.known.points.empty()) {
            index->add(key, points.known);
        }
    }

    void decode(std::span<const std::byte> bytes, RowSink& sink) {
        if (uses_index(bytes)) {
            decode_indexed(bytes, sink);
            return;
        }
        with_decoder(bytes, [&](auto& decoder) { decoder.decode(bytes, sink); });
    }
};

bool is_indexed_jpeg(std::span<const std::byte> bytes) {
    return bytes.size() >= kLeastIndexedBytes && sniff_codec(bytes) == Codec::jpeg;
}

Decoder::Decoder() : state_(std::make_unique<State>()) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

ImageInfo Decoder::info(std::span<const std::byte> bytes, const DecodeOptions& options) {
    state_->accept_first_frames(options.first_frame);
    return state_->with_decoder(bytes, [bytes](auto& decoder) { return decoder.info(bytes); });
}

void Decoder::use_index(JpegIndex* index) {
    state_->index = index;
}

EntryPoints Decoder::known_points(std::span<const std::byte> bytes) {
    return state_->uses_index(bytes) ? state_->index->find(jpeg_key(bytes)) : EntryPoints{};
}

bool Decoder::index_jpeg(std::span<const std::byte> bytes, JpegIndex& index) {
    if (!is_indexed_jpeg(bytes)) {
        return false;
    }
    const JpegKey key = jpeg_key(bytes);
    EntryPointSlot points{.known = index.find(key)};
    state_->jpeg.find_points(bytes, points);
    if (points.grown) {
        index.add(key, points.known);
    }
    return !points.known.points.empty();
}

std::chrono::nanoseconds Decoder::take_entropy_time() {
    return state_->jpeg.take_entropy_time();
}

void Decoder::decode_deep(std::span<const std::byte> bytes, const std::function<void(int, const std::uint8_t*)>& take) {
    if (require_codec(bytes) != Codec::png) {
        throw InvalidArgument(
            {.where = "image", .expected = "a PNG", .got = std::string(codec_name(*sniff_codec(bytes)))});
    }
    state_->png.decode_deep(bytes, take);
}

void Decoder::decode(std::span<const std::byte> bytes, RowSink& sink, const DecodeOptions& options) {
    if (options.indices) {
        if (const Codec codec = require_codec(bytes); codec != Codec::png) {
            throw DataError({}, {.where = "mask",
                                 .expected = "a PNG or TIFF of class indices",
                                 .got = std::string(codec_name(codec)),
                                 .hint = "others do not store palette indices without loss"});
        }
        state_->png.decode(bytes, sink, /*indices=*/true);
        return;
    }
    state_->accept_first_frames(options.first_frame);
    const ImageInfo image = options.exif ? info(bytes, options) : ImageInfo{};
    if (image.orientation == 1) {
        state_->decode(bytes, sink);
        return;
    }
    // The sink's region is in upright pixels. We decode at full size: if `shrink` does not divide a side, the pixels of
    // the smaller image depend on the end from which they are counted.
    const bool swapped = swaps_sides(image.orientation);
    const Region upright =
        checked_region(sink, swapped ? image.width : image.height, swapped ? image.height : image.width);
    BoxSink stored(stored_box(upright.box, image.orientation, image.height, image.width), state_->stored);
    state_->decode(bytes, stored);
    apply_orientation(state_->stored.view(), image.orientation, sink);
    sink.finish();
}

}  // namespace stoker
