// Recognises encoded images by their first bytes (magic numbers) or by file names. Formats must not depend on codecs,
// so damage behind the first bytes shows only when the image is decoded.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// The endings of images that Stoker decodes, in lower case.
inline constexpr std::string_view kImageEndings[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp",  ".ppm",  ".pgm",
                                                     ".pbm", ".pnm",  ".tif", ".tiff", ".avif", ".heic", ".heif",
                                                     ".jxl", ".gif",  ".jp2", ".j2k",  ".jpx"};

// ".jpg, .jpeg, ... or .pnm", for messages.
std::string image_endings();

// True for a name with one of kImageEndings, .npy, or the ending of a recording, in any case.
bool is_image_name(std::string_view name);
bool is_npy_name(std::string_view name);
bool is_tiff_name(std::string_view name);
// .mp4, .m4v, .mov, .mkv, .webm or .avi
bool is_video_name(std::string_view name);
// That of a video or a sound: .wav, .flac, .ogg, .oga, .opus, .mp3, .m4a, .aif or .aiff.
bool is_recording_name(std::string_view name);
// True for bytes that begin as a .npy file.
bool is_npy(std::span<const std::byte> bytes);
// The sides of the array in a .npy file; 0 for another or damaged file.
std::size_t npy_sides(const std::string& path);

// True for images and sounds that Stoker cannot decode: .svg, .psd, .exr, .aac, .wma.
bool is_unsupported_image_name(std::string_view name);

// True for names that tools leave behind: those that begin with a dot (".git", "._001.jpg"), and "__MACOSX", "@eaDir"
// and "lost+found".
bool is_hidden_name(std::string_view name);

// JPEG, PNG, WebP, BMP, PNM (PBM, PGM, PPM), TIFF, AVIF, HEIC, JPEG XL, GIF, JPEG 2000 and Stoker's dct records, the
// same as sniff_codec of codecs/codec.h.
bool is_encoded_image(std::span<const std::byte> bytes);

// True for bytes that begin as an MP4, MOV, Matroska, WebM or AVI file. Such a file is a sound where sounds are wanted.
bool is_video(std::span<const std::byte> bytes);

// The ending of a sound's file, ".wav", by its first bytes; empty for other bytes.
std::string_view sound_ending(std::span<const std::byte> bytes);
inline bool is_sound(std::span<const std::byte> bytes) {
    return !sound_ending(bytes).empty();
}

// Makes `value` refer to the content of an image file: raw pixels of a .npy file, otherwise an encoded image, which is
// not looked at. `bytes` may be part of `value.storage`. `clips`: as for image_array. Throws DataError for a .npy file
// of another kind of array.
void set_image_file(std::span<const std::byte> bytes, FieldValue& value, bool clips = false);

// The same. Throws DataError if the bytes begin neither as an encoded image or a recording nor as a .npy file.
void set_encoded(std::span<const std::byte> bytes, FieldValue& value, bool clips = false);

// "1024 bytes: 47 49 46 38 39 61 01 00": for messages.
std::string describe_bytes(std::span<const std::byte> bytes);

}  // namespace stoker
