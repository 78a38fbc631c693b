#include "stoker/codecs/heif_library.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

Libheif::Libheif() {
    library.find_optional("heif_init", init);
    library.find("heif_have_decoder_for_format", has_decoder);
    library.find("heif_context_alloc", alloc);
    library.find("heif_context_free", free);
    library.find_optional("heif_context_set_max_decoding_threads", set_threads);
    library.find("heif_context_read_from_memory_without_copy", read);
    library.find("heif_context_get_primary_image_handle", primary);
    library.find("heif_image_handle_release", release_handle);
    library.find("heif_image_handle_get_width", width);
    library.find("heif_image_handle_get_height", height);
    library.find("heif_image_handle_get_ispe_width", stored_width);
    library.find("heif_image_handle_get_ispe_height", stored_height);
    library.find("heif_image_handle_get_luma_bits_per_pixel", bits);
    library.find("heif_decoding_options_alloc", options);
    library.find("heif_decoding_options_free", free_options);
    library.find("heif_decode_image", decode);
    library.find("heif_image_release", release_image);
    library.find("heif_image_get_colorspace", colorspace);
    library.find("heif_image_get_chroma_format", chroma);
    library.find("heif_image_get_width", plane_width);
    library.find("heif_image_get_height", plane_height);
    library.find("heif_image_get_bits_per_pixel_range", plane_bits);
    library.find("heif_image_get_plane_readonly", plane);
    library.find("heif_image_get_nclx_color_profile", profile);
    library.find("heif_nclx_color_profile_free", free_profile);
    if (init != nullptr) {
        init(nullptr);  // loads the decoders that are separate files
    }
}

const Libheif& libheif() {
    static const Libheif functions;
    functions.library.require("libheif", "AVIF and HEIC", "libheif1");
    return functions;
}

// From libheif 1.16 on, distributions have a package for each decoder.
void require_heif_decoder(Codec codec) {
    const bool avif = codec == Codec::avif;
    if (libheif().has_decoder(avif ? heif_compression_AV1 : heif_compression_HEVC) == 0) {
        throw IoError({.where = "image",
                       .expected = fmt::format("libheif with a decoder of {}", avif ? "AVIF" : "HEIC"),
                       .got = "one without",
                       .hint = fmt::format("apt-get install libheif-plugin-{}", avif ? "dav1d" : "libde265")});
    }
}

}  // namespace stoker
