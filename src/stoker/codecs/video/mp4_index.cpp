#include "stoker/codecs/video/mp4_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::string_view kContainers[] = {"moov", "trak", "mdia", "minf", "stbl", "edts", "udta", "mvex",
                                            "moof", "traf", "wave", "dinf", "meta", "gmhd", "tapt"};

std::uint64_t big_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (const char byte : bytes) {
        value = value << 8 | static_cast<unsigned char>(byte);
    }
    return value;
}

// The samples that a table says to have: stsz and stz2 (version, size, count), trun (version, count).
std::uint64_t samples_of(std::string_view name, std::string_view content) {
    const std::size_t at = name == "stsz" || name == "stz2" ? 8 : name == "trun" ? 4 : content.size();
    return content.size() >= at + 4 ? big_endian(content.substr(at, 4)) : 0;
}

void check_boxes(std::string_view boxes, std::size_t file, int depth) {
    constexpr int kDeepest = 10;  // moov/trak/mdia/minf/stbl/stsz
    while (boxes.size() >= 8) {
        const std::uint64_t small = big_endian(boxes.substr(0, 4));
        const bool wide = small == 1 && boxes.size() >= 16;
        const std::size_t header = wide ? 16 : 8;
        const std::uint64_t said = wide ? big_endian(boxes.substr(8, 8)) : small;
        const std::string_view name = boxes.substr(4, 4);
        if (said != 0 && said < header) {
            return;
        }
        const std::size_t size = said == 0 ? boxes.size() : std::min<std::uint64_t>(said, boxes.size());
        const std::string_view content = boxes.substr(header, size - header);
        if (const std::uint64_t samples = samples_of(name, content); samples > file) {
            throw DataError({}, {.where = "video",
                                 .expected = fmt::format("an index of at most {} samples", file),
                                 .got = fmt::to_string(samples)});
        }
        if (depth < kDeepest && std::ranges::find(kContainers, name) != std::end(kContainers)) {
            check_boxes(content, file, depth + 1);
        }
        boxes.remove_prefix(size);
    }
}

}  // namespace

void require_possible_index(std::string_view file) {
    if (file.size() >= 12 && !file.starts_with("RIFF") && file[0] != '\x1a') {  // AVI, Matroska
        check_boxes(file, file.size(), 0);
    }
}

}  // namespace stoker
