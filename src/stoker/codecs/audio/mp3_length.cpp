#include "stoker/codecs/audio/mp3_length.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stoker {
namespace {

// kbit/s by the header's index; 0: another length, or none.
using Rates = std::array<int, 16>;
constexpr Rates kRates1Layer1 = {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 0};
constexpr Rates kRates1Layer2 = {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 0};
constexpr Rates kRates1Layer3 = {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0};
constexpr Rates kRates2Layer1 = {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 0};
constexpr Rates kRates2 = {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0};

struct Frame {
    std::size_t bytes = 0;
    int samples = 0;
};

std::optional<Frame> frame_at(std::span<const std::byte> header) {
    const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(header[i]); };
    if (header.size() < 4 || byte(0) != 0xFF || (byte(1) & 0xE0) != 0xE0) {
        return std::nullopt;
    }
    const unsigned version = (byte(1) >> 3) & 3;      // 3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5
    const unsigned layer = 4 - ((byte(1) >> 1) & 3);  // 4: reserved
    const unsigned hertz = (byte(2) >> 2) & 3;
    if (version == 1 || layer == 4 || hertz == 3) {
        return std::nullopt;
    }
    const bool first = version == 3;
    const Rates& rates = first ? (layer == 1   ? kRates1Layer1
                                  : layer == 2 ? kRates1Layer2
                                               : kRates1Layer3)
                               : (layer == 1 ? kRates2Layer1 : kRates2);
    const int rate = 1000 * rates[byte(2) >> 4];
    constexpr std::array<int, 3> kHertz = {44100, 48000, 32000};
    const int sampling = kHertz[hertz] / (first ? 1 : version == 2 ? 2 : 4);
    const int samples = layer == 1 ? 384 : layer == 3 && !first ? 576 : 1152;
    const int padding = static_cast<int>((byte(2) >> 1) & 1);
    const int bytes = layer == 1 ? (12 * rate / sampling + padding) * 4 : samples / 8 * rate / sampling + padding;
    return rate == 0 ? std::nullopt : std::optional(Frame{static_cast<std::size_t>(bytes), samples});
}

// The frames begin behind this tag of ID3v2, or at 0.
std::size_t tag_bytes(std::span<const std::byte> file) {
    constexpr std::size_t kHeader = 10;
    const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kHeader));
    if (text.size() < kHeader || !text.starts_with("ID3")) {
        return 0;
    }
    std::size_t size = kHeader + ((text[5] & 0x10) != 0 ? kHeader : 0);
    std::size_t content = 0;
    for (std::size_t i = 6; i < kHeader; ++i) {  // seven bits each
        content = content << 7 | (static_cast<unsigned char>(text[i]) & 0x7FU);
    }
    size += content;
    return std::min(size, file.size());
}

bool says_its_length(std::span<const std::byte> frame) {
    const std::string_view text(reinterpret_cast<const char*>(frame.data()), frame.size());
    constexpr std::size_t kWhere = 64;  // behind the side information
    const std::string_view beginning = text.substr(0, kWhere);
    return beginning.find("Xing") != std::string_view::npos || beginning.find("Info") != std::string_view::npos ||
           beginning.find("VBRI") != std::string_view::npos;
}

}  // namespace

std::optional<std::int64_t> counted_mp3_samples(std::span<const std::byte> file) {
    std::int64_t samples = 0;
    for (std::span<const std::byte> rest = file.subspan(tag_bytes(file)); const auto frame = frame_at(rest);) {
        const std::size_t bytes = std::min(std::max<std::size_t>(frame->bytes, 4), rest.size());
        if (samples == 0 && says_its_length(rest.first(bytes))) {
            return std::nullopt;
        }
        samples += bytes < frame->bytes ? 0 : frame->samples;  // the last may be cut
        rest = rest.subspan(bytes);
    }
    return samples == 0 ? std::nullopt : std::optional(samples);
}

}  // namespace stoker
