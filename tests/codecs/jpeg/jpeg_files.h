// JPEGs of every kind that libjpeg can write, and libjpeg's pixels for them, so that the tests of the dct codec do not
// depend on Stoker's decoders. A file depends only on its plan.
#pragma once

#include <array>
#include <cstdio>  // jpeglib.h uses FILE
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <jpeglib.h>

#include "codecs/fixtures.h"
#include "stoker/codecs/jpeg/jpeg_guard.h"

namespace stoker::testing {

enum class Content { photo, noise, flat, stripes };
enum class Colors { grey, ycc, rgb, cmyk };

struct JpegPlan {
    int width = 64;
    int height = 48;
    Colors colors = Colors::ycc;
    std::array<int, 3> h = {2, 1, 1};  // sampling factors
    std::array<int, 3> v = {2, 1, 1};
    int quality = 85;         // with `wide_quant`, quality 1 has steps far above 255
    bool wide_quant = false;  // steps of 16 bits
    bool progressive = false;
    bool dc_only = false;  // progressive, with the DC scans only
    bool arithmetic = false;
    bool optimize = false;
    bool separate_scans = false;  // separate scans for each component
    unsigned restart_interval = 0;
    int orientation = 0;  // EXIF; 0: none
    bool comment = false;
    int trailing = 0;  // garbage bytes after the end
    Content content = Content::photo;
    std::uint64_t seed = 1;

    int components() const { return colors == Colors::grey ? 1 : colors == Colors::cmyk ? 4 : 3; }

    // True if the scan can be reproduced: one baseline scan of all components.
    bool one_baseline_scan() const {
        return !progressive && !arithmetic && (!separate_scans || colors == Colors::grey);
    }

    std::string text() const {
        return fmt::format(
            "{} x {}, colours {}, factors {}x{} {}x{} {}x{}, quality {}{}{}{}{}{}{}{}, restart {}, orientation {}, "
            "trailing {}, content {}, seed {}",
            width, height, static_cast<int>(colors), h[0], v[0], h[1], v[1], h[2], v[2], quality,
            wide_quant ? " wide" : "", progressive ? " progressive" : "", dc_only ? " dc_only" : "",
            arithmetic ? " arithmetic" : "", optimize ? " optimised" : "", separate_scans ? " separate" : "",
            comment ? " comment" : "", restart_interval, orientation, trailing, static_cast<int>(content), seed);
    }
};

// (height, width, components) samples.
inline Image content_of(const JpegPlan& plan) {
    if (plan.content == Content::photo) {
        return picture(plan.height, plan.width, plan.components(), plan.seed);
    }
    Image image(plan.height, plan.width, plan.components());
    Rng rng({.seed = plan.seed});
    const auto flat = static_cast<std::uint8_t>(rng.below(256));
    for (int y = 0; y < plan.height; ++y) {
        for (std::size_t x = 0; x < image.view().row_bytes(); ++x) {
            const auto noise = static_cast<std::uint8_t>(rng.below(256));
            const bool dark = (static_cast<std::uint64_t>(y) / 3 + x / 5) % 2 == 0;
            image.view().row(y)[x] = plan.content == Content::noise  ? noise
                                     : plan.content == Content::flat ? flat
                                     : dark                          ? 0
                                                                     : 255;
        }
    }
    return image;
}

// Converts libjpeg's errors to exceptions.
template <typename Call>
void run_libjpeg(JpegGuard& guard, j_common_ptr codec, Call call) {
    if (!guard.run(call)) {
        throw std::runtime_error("libjpeg: " + guard.message(codec));
    }
}

inline void set_up(jpeg_compress_struct& codec, const JpegPlan& plan) {
    constexpr J_COLOR_SPACE kSpaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK};
    codec.image_width = static_cast<JDIMENSION>(plan.width);
    codec.image_height = static_cast<JDIMENSION>(plan.height);
    codec.input_components = plan.components();
    codec.in_color_space = plan.colors == Colors::ycc ? JCS_RGB : kSpaces[static_cast<int>(plan.colors)];
    jpeg_set_defaults(&codec);
    jpeg_set_colorspace(&codec, kSpaces[static_cast<int>(plan.colors)]);
    jpeg_set_quality(&codec, plan.quality, plan.wide_quant ? FALSE : TRUE);
    for (std::size_t c = 0; c < 3 && c < static_cast<std::size_t>(plan.components()); ++c) {
        codec.comp_info[c].h_samp_factor = plan.h[c];
        codec.comp_info[c].v_samp_factor = plan.v[c];
    }
    codec.arith_code = plan.arithmetic ? TRUE : FALSE;
    codec.optimize_coding = plan.optimize ? TRUE : FALSE;
    codec.restart_interval = plan.restart_interval;
    codec.dct_method = JDCT_ISLOW;
}

// The scans of a file that does not use libjpeg's default scans.
inline std::vector<jpeg_scan_info> scans_of(const JpegPlan& plan) {
    std::vector<jpeg_scan_info> scans;
    for (int c = 0; c < plan.components(); ++c) {
        const auto add = [&](int first, int last, int high, int low) {
            scans.push_back({1, {c, 0, 0, 0}, first, last, high, low});
        };
        if (!plan.progressive) {
            add(0, 63, 0, 0);
            continue;
        }
        add(0, 0, 0, 1);
        if (!plan.dc_only) {
            add(1, 5, 0, 2);
            add(6, 63, 0, 2);
            add(1, 63, 2, 1);
            add(0, 0, 1, 0);
            add(1, 63, 1, 0);
        }
    }
    return scans;
}

inline Bytes make_jpeg(const JpegPlan& plan) {
    Image image = content_of(plan);
    const std::vector<jpeg_scan_info> scans = scans_of(plan);
    const Bytes exif = joined({bytes_of(std::string_view("Exif\0\0", 6)), exif_block(plan.orientation, true)});
    JpegGuard guard;
    jpeg_compress_struct codec{};
    codec.err = guard.manager();
    unsigned char* file = nullptr;
    unsigned long size = 0;
    const auto common = reinterpret_cast<j_common_ptr>(&codec);
    struct Owner {
        jpeg_compress_struct& codec;
        unsigned char*& file;
        ~Owner() {
            jpeg_destroy_compress(&codec);
            std::free(file);
        }
    };
    run_libjpeg(guard, common, [&] { jpeg_create_compress(&codec); });
    const Owner owner{codec, file};
    run_libjpeg(guard, common, [&] {
        jpeg_mem_dest(&codec, &file, &size);
        set_up(codec, plan);
        if (plan.separate_scans || plan.dc_only) {
            codec.scan_info = scans.data();
            codec.num_scans = static_cast<int>(scans.size());
        } else if (plan.progressive) {
            jpeg_simple_progression(&codec);
        }
        jpeg_start_compress(&codec, TRUE);
        if (plan.orientation != 0) {
            jpeg_write_marker(&codec, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                              static_cast<unsigned>(exif.size()));
        }
        if (plan.comment) {
            jpeg_write_marker(&codec, JPEG_COM, reinterpret_cast<const JOCTET*>("made by a test"), 14);
        }
        while (codec.next_scanline < codec.image_height) {
            JSAMPROW row = image.view().row(static_cast<int>(codec.next_scanline));
            jpeg_write_scanlines(&codec, &row, 1);
        }
        jpeg_finish_compress(&codec);
    });
    const auto* begin = reinterpret_cast<const std::byte*>(file);
    Bytes bytes(begin, begin + size);
    Rng garbage({.seed = plan.seed, .op = 9});
    for (int i = 0; i < plan.trailing; ++i) {
        bytes.push_back(static_cast<std::byte>(garbage.below(256)));
    }
    return bytes;
}

// libjpeg's full decode: accurate integer inverse DCT, smooth upsampling, RGB.
inline Image libjpeg_pixels(std::span<const std::byte> jpeg) {
    JpegGuard guard;
    jpeg_decompress_struct codec{};
    codec.err = guard.manager();
    const auto common = reinterpret_cast<j_common_ptr>(&codec);
    struct Owner {
        jpeg_decompress_struct& codec;
        ~Owner() { jpeg_destroy_decompress(&codec); }
    };
    run_libjpeg(guard, common, [&] { jpeg_create_decompress(&codec); });
    const Owner owner{codec};
    run_libjpeg(guard, common, [&] {
        jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
        jpeg_read_header(&codec, TRUE);
        codec.out_color_space = JCS_RGB;
        codec.dct_method = JDCT_ISLOW;
        codec.do_fancy_upsampling = TRUE;
        jpeg_start_decompress(&codec);
    });
    Image image(static_cast<int>(codec.output_height), static_cast<int>(codec.output_width), 3);
    for (int y = 0; y < image.height(); ++y) {
        JSAMPROW row = image.view().row(y);
        run_libjpeg(guard, common, [&] { jpeg_read_scanlines(&codec, &row, 1); });
    }
    run_libjpeg(guard, common, [&] { jpeg_finish_decompress(&codec); });
    return image;
}

// The offset of a marker's segment, at its 0xFF. The marker must exist.
inline std::size_t find_marker(const Bytes& jpeg, int marker) {
    const Bytes sought = bytes_of({0xFF, marker});
    const auto at = std::search(jpeg.begin() + 2, jpeg.end(), sought.begin(), sought.end());
    if (at == jpeg.end()) {
        throw std::logic_error("a JPEG without the marker that a test looks for");
    }
    return static_cast<std::size_t>(at - jpeg.begin());
}

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

inline Box random_box(Rng& rng, int height, int width) {
    const int top = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
    const int left = static_cast<int>(rng.below(static_cast<std::uint32_t>(width)));
    return {top, left, 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(height - top))),
            1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(width - left)))};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlow = 10;  // divides the number of repetitions
#else
inline constexpr int kSlow = 1;
#endif

}  // namespace stoker::testing
