// Recognises the codec and hands over to it. Turning an image upright needs all of its pixels, so only
// then is it decoded into memory of the decoder's own first.
#include "stoker/codecs/codec.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/codecs/jpeg.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/png.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kJpegStart = "\xff\xd8\xff"sv;
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n"sv;

// Formats that people do put into data sets, named so that the message tells what to convert.
struct Known {
    std::size_t offset;
    std::string_view bytes;
    std::string_view name;
};
constexpr Known kKnown[] = {
    {8, "WEBP"sv, "a WebP image"sv},  {0, "GIF8"sv, "a GIF image"sv},     {0, "BM"sv, "a BMP image"sv},
    {0, "II*\0"sv, "a TIFF image"sv}, {0, "MM\0*"sv, "a TIFF image"sv},   {4, "ftyp"sv, "a HEIF or AVIF image"sv},
    {0, "\x1f\x8b"sv, "gzip data"sv}, {0, "PK\3\4"sv, "a zip archive"sv},
};

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the bytes look like, safe to print whatever they are.
std::string describe(std::span<const std::byte> bytes) {
    constexpr std::size_t shown = 16;
    if (bytes.empty()) {
        return "no bytes";
    }
    const std::string_view text = as_text(bytes);
    for (const Known& known : kKnown) {
        if (text.size() >= known.offset && text.substr(known.offset).starts_with(known.bytes)) {
            return std::string(known.name);
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
                    {.where = "image", .expected = "a JPEG or PNG image", .got = describe(bytes)});
}

}  // namespace

std::string_view codec_name(Codec codec) {
    switch (codec) {
        case Codec::jpeg:
            return "jpeg";
        case Codec::png:
            return "png";
    }
    return "?";
}

std::optional<Codec> sniff_codec(std::span<const std::byte> bytes) {
    const std::string_view text = as_text(bytes);
    if (text.starts_with(kJpegStart)) {
        return Codec::jpeg;
    }
    if (text.starts_with(kPngStart)) {
        return Codec::png;
    }
    return std::nullopt;
}

struct Decoder::State {
    JpegDecoder jpeg;
    PngDecoder png;
    Image stored;  // an image before it is turned upright

    void decode(std::span<const std::byte> bytes, RowSink& sink) {
        switch (require_codec(bytes)) {
            case Codec::jpeg:
                return jpeg.decode(bytes, sink);
            case Codec::png:
                return png.decode(bytes, sink);
        }
    }
};

Decoder::Decoder() : state_(std::make_unique<State>()) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

ImageInfo Decoder::info(std::span<const std::byte> bytes) {
    return require_codec(bytes) == Codec::jpeg ? state_->jpeg.info(bytes) : state_->png.info(bytes);
}

void Decoder::decode(std::span<const std::byte> bytes, RowSink& sink, const DecodeOptions& options) {
    const int orientation = options.exif ? info(bytes).orientation : 1;
    if (orientation == 1) {
        state_->decode(bytes, sink);
        return;
    }
    ImageSink stored(state_->stored);
    state_->decode(bytes, stored);
    turn_upright(state_->stored.view(), orientation, sink);
    sink.finish();
}

}  // namespace stoker
