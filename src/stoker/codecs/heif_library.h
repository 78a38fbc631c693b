// The functions of libheif that heif.cpp calls. The library is opened at their first use.
#pragma once

#include <libheif/heif.h>

#include "stoker/codecs/codec.h"
#include "stoker/codecs/loaded_library.h"

namespace stoker {

struct Libheif {
    LoadedLibrary library{"libheif.so.1"};
    decltype(&heif_init) init = nullptr;
    decltype(&heif_have_decoder_for_format) has_decoder = nullptr;
    decltype(&heif_context_alloc) alloc = nullptr;
    decltype(&heif_context_free) free = nullptr;
    decltype(&heif_context_set_max_decoding_threads) set_threads = nullptr;
    decltype(&heif_context_read_from_memory_without_copy) read = nullptr;
    decltype(&heif_context_get_primary_image_handle) primary = nullptr;
    decltype(&heif_image_handle_release) release_handle = nullptr;
    decltype(&heif_image_handle_get_width) width = nullptr;
    decltype(&heif_image_handle_get_height) height = nullptr;
    decltype(&heif_image_handle_get_ispe_width) stored_width = nullptr;
    decltype(&heif_image_handle_get_ispe_height) stored_height = nullptr;
    decltype(&heif_image_handle_get_luma_bits_per_pixel) bits = nullptr;
    decltype(&heif_decoding_options_alloc) options = nullptr;
    decltype(&heif_decoding_options_free) free_options = nullptr;
    decltype(&heif_decode_image) decode = nullptr;
    decltype(&heif_image_release) release_image = nullptr;
    decltype(&heif_image_get_colorspace) colorspace = nullptr;
    decltype(&heif_image_get_chroma_format) chroma = nullptr;
    decltype(&heif_image_get_width) plane_width = nullptr;
    decltype(&heif_image_get_height) plane_height = nullptr;
    decltype(&heif_image_get_bits_per_pixel_range) plane_bits = nullptr;
    decltype(&heif_image_get_plane_readonly) plane = nullptr;
    decltype(&heif_image_get_nclx_color_profile) profile = nullptr;
    decltype(&heif_nclx_color_profile_free) free_profile = nullptr;

    Libheif();
};

// Throws IoError without the library.
const Libheif& libheif();

// Throws IoError if libheif lacks the decoder: of AV1 for an AVIF, of HEVC for a HEIC.
void require_heif_decoder(Codec codec);

}  // namespace stoker
