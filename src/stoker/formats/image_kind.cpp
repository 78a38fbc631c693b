// Magic numbers of image files. "BM" and "P6" alone are too short to trust, so more of the header is checked.
#include "stoker/formats/image_kind.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/array.h"
#include "stoker/formats/arrays/npy.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnsupportedExtensions[] = {".svg", ".psd", ".exr", ".aac", ".wma"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> extensions) {
    const auto lower = [](char c) { return lower_case(c); };
    return std::ranges::any_of(extensions, [&](std::string_view extension) {
        return name.size() >= extension.size() &&
               std::ranges::equal(name.substr(name.size() - extension.size()), extension, {}, lower);
    });
}

bool is_bmp(std::string_view text) {
    constexpr std::size_t kHeaderSize = 14;  // offset of the info header's size, 4 bytes
    constexpr std::string_view kSizes = "\x0c\x28\x34\x38\x40\x6c\x7c"sv;
    return text.size() >= kHeaderSize + 4 && text.starts_with("BM"sv) &&
           kSizes.find(text[kHeaderSize]) != std::string_view::npos && text.substr(kHeaderSize + 1, 3) == "\0\0\0"sv;
}

bool is_tiff(std::string_view text) {
    return text.starts_with("II*\0"sv) || text.starts_with("MM\0*"sv) || text.starts_with("II+\0"sv) ||
           text.starts_with("MM\0+"sv);
}

// MP4 of sounds alone, such as music and books.
bool is_m4a(std::string_view text) {
    const std::string_view brand = text.substr(4);
    return brand.starts_with("ftypM4A "sv) || brand.starts_with("ftypM4B "sv);
}

bool is_pnm(std::string_view text) {
    return text.size() >= 3 && text[0] == 'P' && text[1] >= '1' && text[1] <= '6' &&
           " \t\n\v\f\r#"sv.find(text[2]) != std::string_view::npos;
}

// The brand of an AVIF or a HEIC; "mif1" is that of both.
bool is_heif_brand(std::string_view brand) {
    return brand.starts_with("avi"sv) || brand.starts_with("he"sv) || brand.starts_with("mif1"sv);
}

// AVIF, HEIC, JPEG XL and JPEG 2000 in boxes.
bool is_box_image(std::string_view text) {
    constexpr std::size_t kHeader = 16;
    return (text.size() >= kHeader && text.substr(4, 4) == "ftyp"sv && is_heif_brand(text.substr(8))) ||
           text.starts_with("\0\0\0\x0cJXL \x0d\x0a\x87\x0a"sv) || text.starts_with("\0\0\0\x0cjP  \x0d\x0a\x87\x0a"sv);
}

}  // namespace

std::string image_endings() {
    const std::span<const std::string_view> all(kImageEndings);
    return fmt::format("{} or {}", fmt::join(all.first(all.size() - 1), ", "), all.back());
}

bool is_npy(std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with("\x93NUMPY"sv);
}

std::size_t npy_sides(const std::string& path) {
    try {
        const MappedFile file{std::filesystem::path(path)};
        return is_npy(file.bytes()) ? read_npy_header(file.bytes()).shape.size() : 0;
    } catch (const Error&) {  // reported when it is opened
        return 0;
    }
}

bool is_npy_name(std::string_view name) {
    constexpr std::string_view kNpy[] = {".npy"};
    return ends_with_any(name, kNpy);
}

bool is_tiff_name(std::string_view name) {
    constexpr std::string_view kTiff[] = {".tif", ".tiff"};
    return ends_with_any(name, kTiff);
}

bool is_video_name(std::string_view name) {
    constexpr std::string_view kVideos[] = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"};
    return ends_with_any(name, kVideos);
}

bool is_recording_name(std::string_view name) {
    constexpr std::string_view kSounds[] = {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aif", ".aiff"};
    return is_video_name(name) || ends_with_any(name, kSounds);
}

bool is_image_name(std::string_view name) {
    return ends_with_any(name, kImageEndings) || is_npy_name(name) || is_recording_name(name);
}

bool is_unsupported_image_name(std::string_view name) {
    return ends_with_any(name, kUnsupportedExtensions);
}

bool is_hidden_name(std::string_view name) {
    return name.starts_with('.') || name == "__MACOSX" || name == "@eaDir" || name == "lost+found";
}

bool is_encoded_image(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    switch (text.empty() ? '\0' : text[0]) {
        case '\xff':
            return text.starts_with("\xff\xd8\xff"sv) || text.starts_with("\xff\x0a"sv) ||
                   text.starts_with("\xff\x4f\xff\x51"sv);
        case '\x89':
            return text.starts_with("\x89PNG\r\n\x1a\n"sv);
        case 'R':
            return text.starts_with("RIFF"sv) && text.substr(std::min<std::size_t>(8, text.size())).starts_with("WEBP");
        case '\xdc':
            return text.starts_with(
                "\xdc"
                "DCT"sv);
        case 'B':
            return is_bmp(text);
        case 'P':
            return is_pnm(text);
        case 'I':
        case 'M':
            return is_tiff(text);
        case 'G':
            return text.starts_with("GIF87a"sv) || text.starts_with("GIF89a"sv);
        default:
            return is_box_image(text);
    }
}

bool is_video(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeader = 12;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHeader));
    if (text.size() < kHeader) {
        return false;
    }
    const std::string_view box = text.substr(4, 4);
    if (box == "ftyp"sv) {
        return !is_heif_brand(text.substr(8)) && !is_m4a(text);
    }
    return box == "moov"sv || box == "mdat"sv || box == "wide"sv || text.starts_with("\x1a\x45\xdf\xa3"sv) ||
           (text.starts_with("RIFF"sv) && text.ends_with("AVI "sv));
}

std::string_view sound_ending(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeader = 12;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHeader));
    if (text.size() < kHeader) {
        return "";
    }
    if (text.starts_with("fLaC"sv)) {
        return ".flac";
    }
    if (text.starts_with("OggS"sv)) {
        return ".ogg";
    }
    if ((text.starts_with("RIFF"sv) || text.starts_with("RF64"sv)) && text.ends_with("WAVE"sv)) {
        return ".wav";
    }
    if (text.starts_with("FORM"sv) && (text.ends_with("AIFF"sv) || text.ends_with("AIFC"sv))) {
        return ".aiff";
    }
    if (is_m4a(text)) {
        return ".m4a";
    }
    // A frame of MPEG's layers 1 to 3, whose versions and rates are not the reserved ones.
    const auto second = static_cast<unsigned char>(text[1]);
    const auto third = static_cast<unsigned char>(text[2]);
    const bool frame = text[0] == '\xff' && (second & 0xE0) == 0xE0 && (second & 0x18) != 0x08 &&
                       (second & 0x06) != 0 && (third & 0xF0) != 0xF0 && (third & 0x0C) != 0x0C;
    return text.starts_with("ID3"sv) || frame ? ".mp3" : "";
}

void set_image_file(std::span<const std::byte> bytes, FieldValue& value, bool clips) {
    if (!is_npy(bytes)) {
        value.set_encoded_image(bytes);
        return;
    }
    const ArrayView array = parse_npy(bytes);
    set_pixels(image_array(array.type, array.shape, clips), array.fortran, array.bytes, value);
}

void set_encoded(std::span<const std::byte> bytes, FieldValue& value, bool clips) {
    if (!is_encoded_image(bytes) && !is_npy(bytes) && !is_video(bytes) && !is_sound(bytes)) {
        throw DataError({}, {.where = "image",
                             .expected = "a JPEG, PNG, WebP, BMP, PNM, TIFF, AVIF, HEIC, JPEG XL, GIF or JPEG 2000 "
                                         "image, a video or a sound",
                             .got = describe_bytes(bytes)});
    }
    set_image_file(bytes, value, clips);
}

std::string describe_bytes(std::span<const std::byte> bytes) {
    std::string text = fmt::format("{} bytes{}", bytes.size(), bytes.empty() ? "" : ":");
    for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 8))) {
        text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
    }
    return text;
}

}  // namespace stoker
