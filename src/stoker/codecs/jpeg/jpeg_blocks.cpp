// libjpeg keeps the coefficients in virtual arrays, which we copy one row of blocks at a time.
#include "stoker/codecs/jpeg/jpeg_blocks.h"

#include <algorithm>
#include <cstring>

namespace stoker {

bool read_frame(const jpeg_decompress_struct& codec, JpegFrame& frame) {
    if (codec.data_precision != 8 || (codec.num_components != 1 && codec.num_components != 3)) {
        return false;
    }
    switch (codec.jpeg_color_space) {
        case JCS_GRAYSCALE:
            frame.color = FrameColor::grey;
            break;
        case JCS_YCbCr:
            frame.color = FrameColor::ycc;
            break;
        case JCS_RGB:
            frame.color = FrameColor::rgb;
            break;
        default:
            return false;
    }
    frame.width = static_cast<int>(codec.image_width);
    frame.height = static_cast<int>(codec.image_height);
    frame.components = codec.num_components;
    for (int c = 0; c < frame.components; ++c) {
        frame.component[JpegFrame::at(c)].h = codec.comp_info[c].h_samp_factor;
        frame.component[JpegFrame::at(c)].v = codec.comp_info[c].v_samp_factor;
    }
    frame.compute_layout();
    return frame.has_integer_ratios();
}

bool read_quant_tables(const jpeg_decompress_struct& codec, JpegFrame& frame) {
    for (int c = 0; c < frame.components; ++c) {
        // libjpeg copies the table into the component when its first scan begins; later tables do not change it.
        const jpeg_component_info& info = codec.comp_info[c];
        const JQUANT_TBL* table = info.quant_table != nullptr          ? info.quant_table
                                  : info.quant_tbl_no < NUM_QUANT_TBLS ? codec.quant_tbl_ptrs[info.quant_tbl_no]
                                                                       : nullptr;
        if (table == nullptr) {
            return false;
        }
        std::copy_n(table->quantval, kBlockSize, frame.component[JpegFrame::at(c)].quant.begin());
    }
    return true;
}

JpegBlocks read_blocks(JpegReader& reader, const JpegFrame& frame) {
    jpeg_decompress_struct& codec = reader.codec();
    JpegBlocks result{.frame = frame, .blocks = {}};
    jvirt_barray_ptr* arrays = nullptr;
    reader.run([&codec, &arrays] { arrays = jpeg_read_coefficients(&codec); });
    read_quant_tables(codec, result.frame);
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& component = frame.component[JpegFrame::at(c)];
        const std::size_t row_values = kBlockSize * static_cast<std::size_t>(component.blocks_wide);
        result.blocks[c].resize(row_values * static_cast<std::size_t>(component.blocks_high));
        for (int y = 0; y < component.blocks_high; ++y) {
            JBLOCKARRAY rows = nullptr;
            reader.run([&] {
                rows = codec.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&codec), arrays[c],
                                                     static_cast<JDIMENSION>(y), 1, FALSE);
            });
            std::memcpy(result.blocks[c].data() + static_cast<std::size_t>(y) * row_values, rows[0][0],
                        row_values * sizeof(std::int16_t));
        }
    }
    return result;
}

}  // namespace stoker
