// The data source is the caller's memory. Running out of bytes is reported as truncation; libjpeg's own sources would
// fill the rest with grey. Warnings about unusual but complete data are ignored, as in Pillow.
#include "stoker/codecs/jpeg/jpeg_reader.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

std::uint64_t component_bytes(const jpeg_component_info& component) {
    return std::uint64_t{component.width_in_blocks} * component.height_in_blocks * sizeof(JBLOCK);
}

}  // namespace

std::uint64_t coefficient_bytes(const jpeg_decompress_struct& codec) {
    std::uint64_t bytes = 0;
    for (int c = 0; c < codec.num_components; ++c) {
        bytes += component_bytes(codec.comp_info[c]);
    }
    return bytes;
}

// Called by libjpeg. It may longjmp out of any of these, so they have no objects with destructors.
struct JpegReader::Callbacks {
    static j_common_ptr common(j_decompress_ptr codec) { return reinterpret_cast<j_common_ptr>(codec); }

    static void ignore(j_decompress_ptr /*codec*/) {}

    static boolean fill(j_decompress_ptr codec) { JpegGuard::fail(common(codec), JpegFault::truncated); }

    static void skip(j_decompress_ptr codec, long count) {
        if (count <= 0) {
            return;
        }
        if (static_cast<std::size_t>(count) > codec->src->bytes_in_buffer) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        codec->src->next_input_byte += count;
        codec->src->bytes_in_buffer -= static_cast<std::size_t>(count);
    }

    static void watch_scans(j_common_ptr codec) {
        if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxJpegScans) {
            JpegGuard::fail(codec, JpegFault::too_many_scans);
        }
        static_cast<JpegReader*>(codec->client_data)->shrink_claim();
    }

    // After construction, libjpeg allocates permanent memory only for quantisation and Huffman tables. We allocate them
    // in the image's pool instead, so that an image cannot use tables of the previous one.
    static void* alloc_small(j_common_ptr codec, int /*pool*/, std::size_t size) {
        return static_cast<JpegReader*>(codec->client_data)->alloc_small_(codec, JPOOL_IMAGE, size);
    }

    // APP1: reads the orientation from the first EXIF block.
    static boolean read_app1(j_decompress_ptr codec) {
        const std::span bytes(reinterpret_cast<const std::byte*>(codec->src->next_input_byte),
                              codec->src->bytes_in_buffer);
        if (bytes.size() < 2) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        // The length includes its own two bytes. Like libjpeg, we accept smaller values.
        const auto stored = std::to_integer<std::size_t>(bytes[0]) << 8 | std::to_integer<std::size_t>(bytes[1]);
        const std::size_t length = std::max<std::size_t>(stored, 2);
        if (length > bytes.size()) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        auto* self = static_cast<JpegReader*>(codec->client_data);
        const auto block = bytes.subspan(2, length - 2);
        if (self->orientation_ == 0 && block.size() >= 6 && std::memcmp(block.data(), "Exif\0", 6) == 0) {
            self->orientation_ = exif_orientation(block);
        }
        skip(codec, static_cast<long>(length));
        return TRUE;
    }
};

JpegReader::JpegReader() {
    codec_.err = guard_.manager();
    const bool made = guard_.run([this] {
        jpeg_create_decompress(&codec_);
        jpeg_set_marker_processor(&codec_, JPEG_APP0 + 1, Callbacks::read_app1);
    });
    if (!made) {
        jpeg_destroy_decompress(&codec_);
        fail();
    }
    codec_.client_data = this;
    alloc_small_ = codec_.mem->alloc_small;
    codec_.mem->alloc_small = Callbacks::alloc_small;
    source_.init_source = Callbacks::ignore;
    source_.fill_input_buffer = Callbacks::fill;
    source_.skip_input_data = Callbacks::skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = Callbacks::ignore;
    codec_.src = &source_;
    progress_.progress_monitor = Callbacks::watch_scans;
    codec_.progress = &progress_;
}

JpegReader::~JpegReader() {
    jpeg_destroy_decompress(&codec_);
}

void JpegReader::read_header(std::span<const std::byte> bytes) {
    size_ = bytes.size();
    orientation_ = 0;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    run([this] { jpeg_read_header(&codec_, TRUE); });
    check_image_size("jpeg", codec_.image_height, codec_.image_width);
}

void JpegReader::claim_coefficients() {
    unwritten_.fill(1);
    claim_.emplace(coefficient_bytes(codec_));
}

// The first scan of a component writes all its coefficients, row by row; later scans refine them.
void JpegReader::shrink_claim() {
    if (!claim_) {
        return;
    }
    const double left = 1 - static_cast<double>(codec_.input_iMCU_row) / static_cast<double>(codec_.total_iMCU_rows);
    for (int i = 0; i < codec_.comps_in_scan; ++i) {
        double& share = unwritten_.at(static_cast<std::size_t>(codec_.cur_comp_info[i]->component_index));
        share = std::min(share, left);
    }
    double bytes = 0;
    for (int c = 0; c < codec_.num_components; ++c) {
        bytes += unwritten_.at(static_cast<std::size_t>(c)) * static_cast<double>(component_bytes(codec_.comp_info[c]));
    }
    claim_->shrink_to(static_cast<std::uint64_t>(bytes));
}

void JpegReader::close() {
    end_claim();
    jpeg_abort_decompress(&codec_);
    std::fill(std::begin(codec_.quant_tbl_ptrs), std::end(codec_.quant_tbl_ptrs), nullptr);
    std::fill(std::begin(codec_.dc_huff_tbl_ptrs), std::end(codec_.dc_huff_tbl_ptrs), nullptr);
    std::fill(std::begin(codec_.ac_huff_tbl_ptrs), std::end(codec_.ac_huff_tbl_ptrs), nullptr);
}

JpegReader::Session::Session(JpegReader& reader, std::span<const std::byte> bytes) : reader_(reader) {
    try {
        reader_.read_header(bytes);
    } catch (...) {
        reader_.close();
        throw;
    }
}

JpegReader::Session::~Session() {
    reader_.close();
}

ImageInfo JpegReader::info() const {
    return {.codec = Codec::jpeg,
            .height = static_cast<int>(codec_.image_height),
            .width = static_cast<int>(codec_.image_width),
            .orientation = std::max(orientation_, 1),
            .progressive = codec_.progressive_mode != FALSE};
}

std::span<const std::byte> JpegReader::rest() const {
    return {reinterpret_cast<const std::byte*>(source_.next_input_byte), source_.bytes_in_buffer};
}

void JpegReader::fail() const {
    const DataPlace place = {.path = {}, .offset = static_cast<std::int64_t>(size_ - source_.bytes_in_buffer)};
    switch (guard_.fault()) {
        case JpegFault::truncated:
            throw_truncated("jpeg", "JPEG", size_);
        case JpegFault::too_many_scans:
            throw DataError(
                place,
                {.where = "jpeg", .expected = fmt::format("a JPEG of at most {} scans", kMaxJpegScans), .got = "more"});
        case JpegFault::no_memory:
            throw IoError({.where = "host memory", .expected = "memory to decode a JPEG", .got = "none"});
        default:
            throw DataError(
                place, {.where = "jpeg",
                        .expected = "a valid JPEG",
                        .got = guard_.message(reinterpret_cast<j_common_ptr>(const_cast<j_decompress_ptr>(&codec_)))});
    }
}

}  // namespace stoker
