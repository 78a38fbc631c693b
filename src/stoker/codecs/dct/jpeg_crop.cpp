// The pieces are those that HuffmanReader would decode for the box.
#include "stoker/codecs/dct/jpeg_crop.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "stoker/base/buffer.h"
#include "stoker/codecs/jpeg/huffman_reader.h"
#include "stoker/codecs/jpeg/jpeg_blocks.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {
namespace {

constexpr std::size_t kMostScanBytes = std::size_t{1} << 28;  // so that the number of a bit has 32 bits

static_assert(kMostMcuBlocks == kMaxMcuBlocks);

std::size_t aligned(std::size_t bytes) {
    return (bytes + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
}

JpegCodes codes_of(const HuffmanTable& table) {
    JpegCodes codes;
    std::ranges::copy(table.limits(), codes.limits);
    std::ranges::copy(table.offsets(), codes.offsets);
    std::copy_n(table.symbols(), std::size(codes.symbols), codes.symbols);
    return codes;
}

JpegPiece piece_of(const ScanPiece& from, const EntryPoint& next, const CropMcus& mcus, int mcus_wide) {
    const auto wide = static_cast<std::uint32_t>(mcus_wide);
    JpegPiece piece{.bit = static_cast<std::uint32_t>(from.bit),
                    .end = static_cast<std::uint32_t>(piece_end(from, next)),
                    .mcu_row = static_cast<std::uint16_t>(static_cast<std::uint32_t>(mcus.row) + from.first / wide),
                    .mcu_column = static_cast<std::uint16_t>(from.first % wide),
                    .count = static_cast<std::uint16_t>(from.count)};
    std::ranges::transform(from.dc, piece.dc, [](int dc) { return static_cast<std::int16_t>(dc); });
    std::ranges::copy(next.dc, piece.end_dc);
    return piece;
}

}  // namespace

struct JpegCropper::State {
    std::span<const std::byte> crop(const Box& box, std::size_t most);
    void set_scan(std::size_t bytes);

    JpegReader reader;
    std::optional<JpegReader::Session> session;
    JpegFrame frame;
    HuffmanReader huffman;
    EntryPointSlot points;
    DctCrop head;
    JpegScan scan;
    Buffer whole;
};

JpegCropper::JpegCropper() = default;
JpegCropper::JpegCropper(JpegCropper&&) noexcept = default;
JpegCropper& JpegCropper::operator=(JpegCropper&&) noexcept = default;
JpegCropper::~JpegCropper() = default;

ImageInfo JpegCropper::open(std::span<const std::byte> jpeg) {
    if (state_ == nullptr) {
        state_ = std::make_unique<State>();
    }
    state_->session.reset();
    state_->session.emplace(state_->reader, jpeg);
    return state_->reader.info();
}

std::span<const std::byte> JpegCropper::crop(const Box& box, EntryPoints points, std::size_t most) {
    if (points.points.empty()) {
        return {};
    }
    state_->points = {.known = std::move(points)};
    try {
        return state_->crop(box, most);
    } catch (const HuffmanError&) {
        return {};
    }
}

std::span<const std::byte> JpegCropper::State::crop(const Box& box, std::size_t most) {
    const jpeg_decompress_struct& codec = reader.codec();
    if (!read_frame(codec, frame) || !read_quant_tables(codec, frame) ||
        !huffman.open(codec, frame, reader.rest(), &points)) {
        return {};
    }
    PlanePlan plans[3];
    const CropMcus mcus = plan_crop(frame, box, head, plans);
    if (box.top + box.height == frame.height) {
        huffman.finish();  // as JpegDecoder, which leaves a file without its end to libjpeg
    }
    huffman.want(mcus.end_row, mcus.column, mcus.end_column);
    const HuffmanReader::Pieces pieces = huffman.pieces(mcus.row, mcus.end_row);
    const std::size_t count = pieces.pieces.size();
    const std::size_t front = aligned(sizeof head + sizeof scan + sizeof(JpegPiece) * count);
    if (count == 0 || pieces.bytes.size() > kMostScanBytes || front + pieces.bytes.size() > most) {
        return {};
    }
    head.pieces = static_cast<std::uint32_t>(count);
    set_scan(front);
    whole.resize(front + pieces.bytes.size());
    std::byte* to = whole.data();
    std::memcpy(to, &head, sizeof head);
    std::memcpy(to + sizeof head, &scan, sizeof scan);
    for (std::size_t i = 0; i < count; ++i) {
        const JpegPiece piece = piece_of(pieces.pieces[i], *pieces.ends[i], mcus, frame.mcus_wide);
        if (piece.bit > piece.end) {
            return {};
        }
        std::memcpy(to + sizeof head + sizeof scan + sizeof piece * i, &piece, sizeof piece);
    }
    std::memcpy(to + front, pieces.bytes.data(), pieces.bytes.size());
    return std::as_const(whole).bytes();
}

// `bytes`: their place in the crop.
void JpegCropper::State::set_scan(std::size_t bytes) {
    const ScanLayout& layout = huffman.layout();
    const HuffmanTable* tables[4] = {};
    const auto number_of = [&tables](const HuffmanTable* table, int first) {
        const int number = tables[first] == nullptr || tables[first] == table ? first : first + 1;
        tables[number] = table;
        return static_cast<std::uint8_t>(number);
    };
    scan = {.bytes = static_cast<std::uint32_t>(bytes), .mcu_blocks = static_cast<std::uint32_t>(layout.mcu_blocks)};
    std::size_t i = 0;
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& component = frame.component[JpegFrame::at(c)];
        for (int k = 0; k < component.h * component.v; ++k, ++i) {
            scan.blocks[i] = {.component = static_cast<std::uint8_t>(c),
                              .dc = number_of(layout.blocks[i].dc, 0),
                              .ac = number_of(layout.blocks[i].ac, 2),
                              .h = static_cast<std::uint8_t>(component.h),
                              .v = static_cast<std::uint8_t>(component.v),
                              .column = static_cast<std::uint8_t>(k % component.h),
                              .row = static_cast<std::uint8_t>(k / component.h)};
        }
    }
    for (int t = 0; t < 4; ++t) {
        if (tables[t] != nullptr) {
            scan.codes[t] = codes_of(*tables[t]);
        }
    }
}

}  // namespace stoker
