// Does only the steps that the options require for each sample.
#include "stoker/pack/transcode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/encode.h"
#include "stoker/codecs/tiff.h"
#include "stoker/codecs/video/video.h"
#include "stoker/formats/array.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk_clip.h"
#include "stoker/ops/resize.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

constexpr int kResizedQuality = 90;
constexpr std::array<std::pair<std::string_view, PackCodec>, 6> kNames = {{{"keep", PackCodec::keep},
                                                                           {"jpeg", PackCodec::jpeg},
                                                                           {"dct", PackCodec::dct},
                                                                           {"dct-zstd", PackCodec::dct_zstd},
                                                                           {"dct-ans", PackCodec::dct_ans},
                                                                           {"raw", PackCodec::raw}}};

constexpr std::array<std::pair<Codec, StkCodec>, 14> kStkCodecs = {{{Codec::jpeg, StkCodec::jpeg},
                                                                    {Codec::png, StkCodec::png},
                                                                    {Codec::dct, StkCodec::dct},
                                                                    {Codec::dct_zstd, StkCodec::dct_zstd},
                                                                    {Codec::dct_ans, StkCodec::dct_ans},
                                                                    {Codec::webp, StkCodec::webp},
                                                                    {Codec::bmp, StkCodec::bmp},
                                                                    {Codec::pnm, StkCodec::pnm},
                                                                    {Codec::tiff, StkCodec::tiff},
                                                                    {Codec::avif, StkCodec::avif},
                                                                    {Codec::heic, StkCodec::heic},
                                                                    {Codec::jxl, StkCodec::jxl},
                                                                    {Codec::gif, StkCodec::gif},
                                                                    {Codec::jpeg2000, StkCodec::jpeg2000}}};

bool is_dct_codec(PackCodec codec) {
    return codec == PackCodec::dct || codec == PackCodec::dct_zstd || codec == PackCodec::dct_ans;
}

bool is_dct_codec(StkCodec codec) {
    return codec == StkCodec::dct || codec == StkCodec::dct_zstd || codec == StkCodec::dct_ans;
}

bool is_lossless(StkCodec codec) {
    return codec == StkCodec::png || codec == StkCodec::bmp || codec == StkCodec::pnm || codec == StkCodec::tiff ||
           codec == StkCodec::gif;
}

[[noreturn]] void refuse_change(std::string got) {
    throw InvalidArgument({.where = "pack",
                           .expected = "images of uint8 with 1 or 3 channels, to resize or convert them",
                           .got = std::move(got),
                           .hint = "leave out --codec raw, --quality and --resize-shorter"});
}

void require_picture(int channels) {
    if (channels != 1 && channels != 3) {
        refuse_change(fmt::format("images of {} channels", channels));
    }
}

// Copies an image's rows without their padding.
void copy_rows(ConstImageView image, std::vector<std::byte>& out) {
    const std::size_t row = image.row_bytes();
    out.resize(row * static_cast<std::size_t>(image.height));
    for (int y = 0; y < image.height; ++y) {
        std::memcpy(out.data() + static_cast<std::size_t>(y) * row, image.row(y), row);
    }
}

}  // namespace

StkCodec stk_codec_of(std::span<const std::byte> bytes) {
    const std::optional<Codec> codec = sniff_codec(bytes);
    const auto* const found = std::ranges::find(kStkCodecs, codec, &std::pair<Codec, StkCodec>::first);
    if (found == kStkCodecs.end()) {
        throw DataError({}, {.where = "image", .expected = "an encoded image", .got = describe_bytes(bytes)});
    }
    return found->second;
}

std::vector<std::byte> npy_file(const FieldValue& value) {
    const std::span<const FieldValue> frames =
        value.frames.empty() ? std::span(&value, 1) : std::span<const FieldValue>(value.frames);
    const FieldValue& image = frames.front();
    const DType dtype = image.dtype.value_or(DType::uint8);
    Shape shape = {image.height, image.width};
    if (image.channels > 1) {
        shape.insert(image.planes ? shape.begin() : shape.end(), image.channels);
    }
    const std::string_view descr = npy_descr(dtype);
    const auto same = [&](const FieldValue& other) {
        return !other.encoded && other.height == image.height && other.width == image.width &&
               other.channels == image.channels && other.planes == image.planes && other.dtype == image.dtype;
    };
    if (descr.empty() || !std::ranges::all_of(frames, same) ||
        (image.channels > 1 && image_array(dtype, shape).planes != image.planes)) {
        throw InvalidArgument({.where = "pack",
                               .expected = "images of a type that NumPy has, whose channels are their shortest side",
                               .got = fmt::format("{} of ({})", dtype_name(dtype), fmt::join(shape, ", "))});
    }
    if (!value.frames.empty()) {
        shape.insert(shape.begin(), std::ssize(frames));
    }
    const std::string header = npy_header(descr, shape);
    std::vector<std::byte> file(header.size() + image.bytes.size() * frames.size());
    auto to = std::ranges::copy(as_bytes(header), file.begin()).out;
    for (const FieldValue& frame : frames) {
        to = std::ranges::copy(frame.bytes, to).out;
    }
    return file;
}

PackCodec parse_pack_codec(std::string_view name) {
    const auto found = std::ranges::find(kNames, name, &std::pair<std::string_view, PackCodec>::first);
    if (found == kNames.end()) {
        throw InvalidArgument({.where = "codec",
                               .expected = "keep, jpeg, dct, dct-zstd, dct-ans or raw",
                               .got = fmt::format("\"{}\"", name)});
    }
    return found->second;
}

std::string_view pack_codec_name(PackCodec codec) {
    return std::ranges::find(kNames, codec, &std::pair<std::string_view, PackCodec>::second)->first;
}

Transcoder::Transcoder(const TranscodeOptions& options)
    : options_(options),
      codec_(options.codec.value_or(PackCodec::keep)),
      transform_(std::vector<Op>(), {.first_frame = options.first_frame}) {
    if (options.quality < 0 || options.quality > 100 || options.resize_shorter < 0) {
        throw InvalidArgument({.where = "pack",
                               .expected = "a quality of 1 to 100 and a positive size, or 0",
                               .got = fmt::format("{} and {}", options.quality, options.resize_shorter)});
    }
    if (options.quality > 0 && codec_ == PackCodec::raw) {
        throw InvalidArgument(
            {.where = "pack", .expected = "a quality only where JPEGs are written", .got = "one for raw pixels"});
    }
}

void Transcoder::run_clip(const FieldValue& clip, bool original, TranscodedImage& out) {
    std::vector<TranscodedImage> made(clip.frames.size());
    std::vector<StkImage> frames;
    out.kept.clear();
    out.exif_lost = false;
    for (std::size_t i = 0; i < made.size(); ++i) {
        run(clip.frames[i], original, made[i]);
        frames.push_back(made[i].image);
        out.kept = out.kept.empty() ? made[i].kept : out.kept;
        out.exif_lost = out.exif_lost || made[i].exif_lost;
    }
    const bool all = std::ranges::all_of(frames, &StkImage::original_file);
    out.made = write_stk_clip(frames);
    out.image = {.bytes = out.made, .codec = StkCodec::clip, .original_file = all};
}

void Transcoder::run_video(const FieldValue& sample, TranscodedImage& out) {
    VideoFile video(sample.bytes);
    if (!changes() && !is_dct_codec(codec_) && codec_ != PackCodec::raw) {
        out.image = {.bytes = sample.bytes, .codec = StkCodec::video, .original_file = true};
        return;
    }
    const std::int64_t count = video.info().frames;
    if (count > kMostStkFrames) {
        throw DataError({}, {.where = "video",
                             .expected = fmt::format("at most {} frames", kMostStkFrames),
                             .got = fmt::to_string(count),
                             .hint = "cut the video, or pack it as a file with --codec keep"});
    }
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<TranscodedImage> made(numbers.size());
    std::vector<StkImage> frames;
    std::uint64_t bytes = 0;
    video.decode(numbers, [&](ConstImageView frame) {
        TranscodedImage& one = made[frames.size()];
        encode(resized(frame), sample, one);
        frames.push_back(one.image);
        bytes += one.image.bytes.size();
        require_memory(bytes, "the frames of a video");  // and as much again for the packed clip
    });
    out.made = write_stk_clip(frames);
    out.image = {.bytes = out.made, .codec = StkCodec::clip};
}

void Transcoder::run(const FieldValue& sample, bool original, TranscodedImage& out) {
    if (!sample.frames.empty()) {
        run_clip(sample, original, out);
        return;
    }
    out.kept.clear();
    out.exif_lost = false;
    if (sample.encoded && is_video(sample.bytes)) {
        run_video(sample, out);
        return;
    }
    if (sample.encoded && is_sound(sample.bytes)) {
        keep_sound(sample, out);
        return;
    }
    if (is_deep(sample)) {
        keep_deep(sample, out);
        return;
    }
    if (changes() && sample.encoded && is_tiff(sample.bytes)) {
        require_picture(scratch_.decoder.info(sample.bytes).channels);
    }
    if (is_plain_dct(sample)) {  // to_dct reads every coefficient, so no other decoder is needed as a check
        to_dct(sample.bytes, StkCodec::jpeg, out);
        if (!out.kept.empty()) {
            decode(sample);
        }
        out.image.original_file = out.image.original_file && original;
        return;
    }
    const ConstImageView pixels = decode(sample);
    const ConstImageView wanted = resized(pixels);
    const bool to_raw = sample.encoded && codec_ == PackCodec::raw;
    if (to_raw || wanted.data != pixels.data || options_.quality > 0) {
        encode(wanted, sample, out);
        const DecodeOptions as_decoded{.first_frame = options_.first_frame};
        out.exif_lost = sample.encoded && scratch_.decoder.info(sample.bytes, as_decoded).orientation != 1;
        return;
    }
    keep(sample, out);
    out.image.original_file = out.image.original_file && original;
}

bool Transcoder::changes() const {
    return options_.resize_shorter > 0 || options_.quality > 0;
}

void Transcoder::keep_sound(const FieldValue& sample, TranscodedImage& out) {
    Sample decoded;
    decoded.set_encoded_image(sample.bytes);
    decode_wanted(decoded, {}, sound_);  // to find damage
    out.image = {.bytes = sample.bytes, .codec = StkCodec::sound, .original_file = true};
}

// Images that are not bytes are packed unchanged, arrays as .npy files.
void Transcoder::keep_deep(const FieldValue& sample, TranscodedImage& out) {
    if (changes() || codec_ == PackCodec::raw) {
        refuse_change("images of another type");
    }
    if (sample.encoded) {
        check(sample);
        out.image = {.bytes = sample.bytes, .codec = stk_codec_of(sample.bytes), .original_file = true};
    } else {
        out.made = npy_file(sample);
        out.image = {.bytes = out.made, .codec = StkCodec::npy};
    }
    out.kept = is_dct_codec(codec_) ? "an image that is not of bytes" : "";
}

void Transcoder::check(const FieldValue& image) {
    if (!image.encoded || !is_deep(image)) {
        decode(image);
        return;
    }
    StageTimes times;
    StageClock clock(times);
    transform_.planes(image, {}, scratch_, clock);
}

bool Transcoder::is_plain_dct(const FieldValue& sample) const {
    return is_dct_codec(codec_) && options_.resize_shorter == 0 && options_.quality == 0 && sample.encoded &&
           sniff_codec(sample.bytes) == Codec::jpeg;
}

ConstImageView Transcoder::decode(const FieldValue& image) {
    StageTimes times;
    StageClock clock(times);
    return transform_.prepare(image, scratch_, clock);
}

ConstImageView Transcoder::resized(ConstImageView image) {
    const int shorter = options_.resize_shorter;
    if (shorter == 0 || std::min(image.height, image.width) <= shorter) {
        return image;
    }
    const ImageSize size = resized_size(image.height, image.width, shorter);
    reduced_.reset(size.height, size.width, image.channels);
    resize(image, reduced_.view(), scratch_.resize);
    return reduced_.view();
}

// Stores the sample unchanged or converts it losslessly.
void Transcoder::keep(const FieldValue& sample, TranscodedImage& out) const {
    if (!sample.encoded) {
        out.image = {.bytes = sample.bytes,
                     .codec = StkCodec::raw,
                     .height = sample.height,
                     .width = sample.width,
                     .channels = sample.channels};
        out.kept = is_dct_codec(codec_) ? "raw pixels" : "";
        return;
    }
    const StkCodec codec = stk_codec_of(sample.bytes);
    if (is_dct_codec(codec_)) {
        return to_dct(sample.bytes, codec, out);
    }
    out.image = {.bytes = sample.bytes, .codec = codec, .original_file = true};
    if (codec_ == PackCodec::jpeg && is_dct_codec(codec)) {
        out.made = restore_jpeg(sample.bytes);
        out.image = {.bytes = out.made, .codec = StkCodec::jpeg, .original_file = true};
    }
}

void Transcoder::to_dct(std::span<const std::byte> bytes, StkCodec codec, TranscodedImage& out) const {
    const StkCodec wanted = codec_ == PackCodec::dct        ? StkCodec::dct
                            : codec_ == PackCodec::dct_zstd ? StkCodec::dct_zstd
                                                            : StkCodec::dct_ans;
    out.image = {.bytes = bytes, .codec = codec, .original_file = true};
    if (codec == wanted) {
        return;
    }
    std::vector<std::byte> jpeg;
    if (is_dct_codec(codec)) {
        jpeg = restore_jpeg(bytes);
        bytes = jpeg;
    } else if (codec != StkCodec::jpeg) {
        out.kept = fmt::format("{} image", stk_codec_name(codec));
        return;
    }
    const DctKind kind = wanted == StkCodec::dct        ? DctKind::segments
                         : wanted == StkCodec::dct_zstd ? DctKind::zstd
                                                        : DctKind::ans;
    DctRecord record = encode_dct(bytes, kind);
    if (!record.reason.empty()) {
        out.kept = std::move(record.reason);
        return;
    }
    out.made = std::move(record.bytes);
    out.image = {.bytes = out.made, .codec = wanted, .original_file = record.exact_file};
}

// Encodes pixels: resized ones, or those of a sample that changes its codec.
void Transcoder::encode(ConstImageView image, const FieldValue& sample, TranscodedImage& out) const {
    const bool stays_raw = !sample.encoded && options_.quality == 0;
    if (codec_ == PackCodec::raw || stays_raw) {
        copy_rows(image, out.made);
        out.image = {.bytes = out.made,
                     .codec = StkCodec::raw,
                     .height = image.height,
                     .width = image.width,
                     .channels = image.channels};
        out.kept = is_dct_codec(codec_) ? "raw pixels" : "";
        return;
    }
    if (options_.quality == 0 && !is_video(sample.bytes) && is_lossless(stk_codec_of(sample.bytes))) {
        out.made = encode_png(image);
        out.image = {.bytes = out.made, .codec = StkCodec::png};
        out.kept = is_dct_codec(codec_) ? "png image" : "";
        return;
    }
    std::vector<std::byte> jpeg =
        encode_jpeg(image, {.quality = options_.quality == 0 ? kResizedQuality : options_.quality});
    if (is_dct_codec(codec_)) {
        to_dct(jpeg, StkCodec::jpeg, out);
    }
    if (!is_dct_codec(codec_) || !out.kept.empty()) {
        out.made = std::move(jpeg);
        out.image = {.bytes = out.made, .codec = StkCodec::jpeg};
    }
    out.image.original_file = false;
}

}  // namespace stoker
