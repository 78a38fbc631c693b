// libheif finds the primary image and decodes it to the planes that it stores. They are converted to RGB here, because
// libheif's conversion differs from one release to the next; it does so only for colours that yuv_to_rgb.h does not
// have.
#include "stoker/codecs/heif.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/heif_boxes.h"
#include "stoker/codecs/heif_coded_size.h"
#include "stoker/codecs/heif_items.h"
#include "stoker/codecs/heif_library.h"
#include "stoker/codecs/region.h"
#include "stoker/codecs/yuv_to_rgb.h"

namespace stoker {
namespace {

using HeifImage = std::unique_ptr<heif_image, decltype(&heif_image_release)>;

// An open file, and its primary image.
class HeifFile {
  public:
    HeifFile(std::span<const std::byte> bytes, bool first_frames)
        : lib_(libheif()),
          bytes_(bytes),
          codec_(*heif_codec(bytes)),
          context_(lib_.alloc(), lib_.free),
          handle_(nullptr, lib_.release_handle) {
        if (!is_heif_complete(bytes)) {
            throw_truncated(where(), codec_ == Codec::avif ? "AVIF" : "HEIC", bytes.size());
        }
        if (is_heif_sequence(bytes) && !first_frames) {
            throw DataError({}, {.where = where(),
                                 .expected = "one still image",
                                 .got = "a sequence of images",
                                 .hint = "data.first_frame = true, or packing with --first-frame, reads its primary "
                                         "image; or save the frame that you need as a separate file"});
        }
        if (context_ == nullptr) {
            throw IoError({.where = "host memory", .expected = "memory to decode a HEIF file", .got = "none"});
        }
        if (lib_.set_threads != nullptr) {
            lib_.set_threads(context_.get(), 0);  // tiles one after the other; dav1d uses all cores for each
        }
        items_ = read_heif_items(bytes);
        check(lib_.read(context_.get(), bytes.data(), bytes.size(), nullptr));
        heif_image_handle* handle = nullptr;
        check(lib_.primary(context_.get(), &handle));
        handle_.reset(handle);
        const bool stored = codec_ == Codec::avif;  // before it is turned
        height_ = stored ? lib_.stored_height(handle) : lib_.height(handle);
        width_ = stored ? lib_.stored_width(handle) : lib_.width(handle);
        check_image_size(where(), height_, width_);
        check_canvas();
    }

    Codec codec() const { return codec_; }
    const char* where() const { return codec_ == Codec::avif ? "avif" : "heic"; }
    int height() const { return height_; }
    int width() const { return width_; }
    const HeifItems& items() const { return items_; }
    int bits() const { return std::max(lib_.bits(handle_.get()), 8); }

    // As stored, or converted by libheif to RGB of 8 bits. Without an explicit format libheif 1.15 converts to RGB.
    HeifImage decode(bool to_rgb) const {
        require_heif_decoder(codec_);
        constexpr heif_chroma kChromas[] = {heif_chroma_monochrome, heif_chroma_420, heif_chroma_422, heif_chroma_444};
        heif_colorspace space = heif_colorspace_RGB;
        heif_chroma chroma = heif_chroma_interleaved_RGB;
        if (const std::optional<int> stored = heif_chroma_format(bytes_); stored && !to_rgb) {
            space = *stored == 0 ? heif_colorspace_monochrome : heif_colorspace_YCbCr;
            chroma = kChromas[*stored];
        }
        const std::unique_ptr<heif_decoding_options, decltype(&heif_decoding_options_free)> options(lib_.options(),
                                                                                                    lib_.free_options);
        options->ignore_transformations = codec_ == Codec::avif ? 1 : 0;
        if (options->version >= 2) {
            options->convert_hdr_to_8bit = to_rgb ? 1 : 0;
        }
        if (options->version >= 3) {
            options->strict_decoding = 1;
        }
        heif_image* image = nullptr;
        check(lib_.decode(handle_.get(), &image, space, chroma, options.get()));
        return HeifImage(image, lib_.release_image);
    }

    [[noreturn]] void refuse(std::string got) const { refuse_heif(codec_, std::move(got)); }

  private:
    void check(const heif_error& error) const {
        if (error.code != heif_error_Ok) {
            std::string text = error.message != nullptr ? error.message : "damaged data";
            std::ranges::replace(text, '\n', ' ');
            refuse(std::move(text));
        }
    }

    // libheif allocates the canvas that the content of a grid states.
    void check_canvas() const {
        if (items_.shown().coded()) {
            return;
        }
        const GridCanvas canvas = grid_canvas(codec_, items_.shown());
        const auto height = static_cast<std::uint64_t>(lib_.stored_height(handle_.get()));
        const auto width = static_cast<std::uint64_t>(lib_.stored_width(handle_.get()));
        if (canvas.height != height || canvas.width != width) {
            refuse(fmt::format("a grid of {} x {}, not of {} x {} as its header says", canvas.width, canvas.height,
                               width, height));
        }
    }

    const Libheif& lib_;
    std::span<const std::byte> bytes_;
    Codec codec_;
    HeifItems items_;
    std::unique_ptr<heif_context, decltype(&heif_context_free)> context_;
    std::unique_ptr<heif_image_handle, decltype(&heif_image_handle_release)> handle_;
    int height_ = 0;
    int width_ = 0;
};

// The planes of a decoded image as rows of RGB.
class HeifRows {
  public:
    HeifRows(const HeifFile& file, const HeifImage& image) : file_(file), image_(image.get()) {
        const heif_colorspace space = lib_.colorspace(image_);
        if (space == heif_colorspace_YCbCr || space == heif_colorspace_monochrome) {
            use_luma(space == heif_colorspace_monochrome);
        } else if (space == heif_colorspace_RGB && lib_.chroma(image_) == heif_chroma_444) {
            use_planes({heif_channel_R, heif_channel_G, heif_channel_B});
        } else if (space == heif_colorspace_RGB && lib_.chroma(image_) == heif_chroma_interleaved_RGB) {
            rgb_ = {whole_plane(heif_channel_interleaved)};
        }
    }

    // False for colours that only libheif converts.
    bool known() const { return yuv_.has_value() || !rgb_.empty(); }

    void read(int y, std::uint8_t* to) {
        if (yuv_) {
            yuv_->read(y, to);
        } else if (rgb_.size() == 1) {
            std::copy_n(rgb_[0].data + y * rgb_[0].stride, 3 * rgb_[0].width, to);
        } else {
            const int most = (1 << bits_) - 1;
            for (std::size_t c = 0; c < rgb_.size(); ++c) {
                const std::uint8_t* row = rgb_[c].data + y * rgb_[c].stride;
                for (int x = 0; x < rgb_[c].width; ++x) {
                    const int value = bits_ > 8 ? reinterpret_cast<const std::uint16_t*>(row)[x] : row[x];
                    to[3 * static_cast<std::size_t>(x) + c] =
                        static_cast<std::uint8_t>(std::min((value * 255 + most / 2) / most, 255));
                }
            }
        }
    }

  private:
    YuvPlane plane(heif_channel channel) const {
        int stride = 0;
        const std::uint8_t* data = lib_.plane(image_, channel, &stride);
        const YuvPlane plane{.data = data,
                             .stride = stride,
                             .height = lib_.plane_height(image_, channel),
                             .width = lib_.plane_width(image_, channel)};
        const auto fits = [](int side, int whole) { return side == whole || side == (whole + 1) / 2; };
        if (data == nullptr || !fits(plane.height, file_.height()) || !fits(plane.width, file_.width())) {
            file_.refuse(fmt::format("pixels of {} x {}, not of {} x {} as its header says", plane.width, plane.height,
                                     file_.width(), file_.height()));
        }
        return plane;
    }

    // A plane of the image's size.
    YuvPlane whole_plane(heif_channel channel) const {
        const YuvPlane found = plane(channel);
        if (found.height != file_.height() || found.width != file_.width()) {
            file_.refuse("channels of several sizes");
        }
        return found;
    }

    void use_planes(const std::vector<heif_channel>& channels) {
        for (const heif_channel channel : channels) {
            rgb_.push_back(whole_plane(channel));
            if (!take_bits(channel)) {
                file_.refuse("channels of several depths");
            }
        }
    }

    bool take_bits(heif_channel channel) {
        const int bits = lib_.plane_bits(image_, channel);
        const bool same = bits_ == 0 || bits_ == bits;
        bits_ = bits;
        return same && bits >= 8 && bits <= 16;
    }

    void use_luma(bool grey) {
        YuvImage yuv;
        heif_color_profile_nclx* profile = nullptr;
        heif_matrix_coefficients matrix = heif_matrix_coefficients_unspecified;
        if (lib_.profile(image_, &profile).code == heif_error_Ok && profile != nullptr) {
            matrix = profile->matrix_coefficients;
            yuv.full_range = profile->full_range_flag != 0;
            lib_.free_profile(profile);
        }
        if (matrix == heif_matrix_coefficients_RGB_GBR && !grey) {
            if (lib_.chroma(image_) == heif_chroma_444 && yuv.full_range) {
                use_planes({heif_channel_Cr, heif_channel_Y, heif_channel_Cb});
            }
            return;
        }
        const std::optional<YuvColors> colors = colors_of(matrix);
        if (!colors) {
            return;
        }
        yuv.colors = *colors;
        yuv.y = whole_plane(heif_channel_Y);
        bool same = take_bits(heif_channel_Y);
        if (!grey) {
            yuv.u = plane(heif_channel_Cb);
            yuv.v = plane(heif_channel_Cr);
            same = same && take_bits(heif_channel_Cb) && take_bits(heif_channel_Cr);
        }
        if (!same) {
            file_.refuse("channels of several depths");
        }
        yuv.bits = bits_;
        yuv_.emplace(yuv);
    }

    static std::optional<YuvColors> colors_of(heif_matrix_coefficients matrix) {
        switch (matrix) {
            case heif_matrix_coefficients_ITU_R_BT_709_5:
                return YuvColors::bt709;
            case heif_matrix_coefficients_ITU_R_BT_2020_2_non_constant_luminance:
                return YuvColors::bt2020;
            case heif_matrix_coefficients_unspecified:
            case heif_matrix_coefficients_ITU_R_BT_470_6_System_B_G:
            case heif_matrix_coefficients_ITU_R_BT_601_6:
                return YuvColors::bt601;
            default:
                return std::nullopt;
        }
    }

    const Libheif& lib_ = libheif();
    const HeifFile& file_;
    const heif_image* image_;
    std::optional<YuvRows> yuv_;
    std::vector<YuvPlane> rgb_;  // R, G, B, or all in one
    int bits_ = 0;
};

}  // namespace

ImageInfo HeifDecoder::info(std::span<const std::byte> bytes) const {
    const HeifFile file(bytes, first_frames_);
    return {.codec = file.codec(),
            .height = file.height(),
            .width = file.width(),
            .orientation = file.codec() == Codec::avif ? heif_orientation(bytes) : 1,
            .bits = file.bits()};
}

void HeifDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const HeifFile file(bytes, first_frames_);
    const Box box = checked_region(sink, file.height(), file.width()).box;
    const CodedSizes coded = coded_sizes(file.items());
    // A decoder's picture, the canvas of its grid, and libheif's copy of them.
    const std::uint64_t sample = file.bits() > 8 ? 2 : 1;
    const std::uint64_t shown = static_cast<std::uint64_t>(file.height()) * static_cast<std::uint64_t>(file.width());
    const MemoryClaim claim(2 * 3 * sample * std::max(coded.largest + coded.canvases, shown), "a HEIF file");
    HeifImage image = file.decode(/*to_rgb=*/file.codec() == Codec::heic);
    std::optional<HeifRows> pixels(std::in_place, file, image);
    if (!pixels->known()) {
        image = file.decode(/*to_rgb=*/true);
        pixels.emplace(file, image);
        if (!pixels->known()) {
            file.refuse("colours that libheif does not convert to RGB");
        }
    }
    RegionRows rows(sink, box, file.height(), file.width(), row_);
    for (int y = box.top; y < rows.end(); ++y) {
        pixels->read(y, rows.begin(y));
        rows.complete(y);
    }
    sink.finish();
}

}  // namespace stoker
