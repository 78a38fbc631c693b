// libzstd does the entropy coding. Its fastest level gives the smallest size here: nearly all of the gain comes from
// the Huffman coding of literals, and longer searches find only chance matches.
#include "stoker/codecs/dct/dct_group.h"

#include <cstring>
#include <zstd.h>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"

namespace stoker {
namespace {

constexpr int kParts = 4;
constexpr int kLevel = 1;

// The maximum bytes per block in each part: 3.5, 8, 31.5 and 3 * 63, rounded up.
constexpr std::size_t kMaxBytes[kParts] = {4, 8, 32, 189};

[[noreturn]] void refuse(const char* got) {
    throw DataError({}, {.where = "dct", .expected = "a valid group of segments", .got = got});
}

std::vector<std::byte> compress(const std::vector<std::byte>& part) {
    if (part.empty()) {
        return {};
    }
    std::vector<std::byte> out(ZSTD_compressBound(part.size()));
    const std::size_t size = ZSTD_compress(out.data(), out.size(), part.data(), part.size(), kLevel);
    if (ZSTD_isError(size) != 0) {
        throw InternalError({.where = "zstd", .expected = "a compressed group", .got = ZSTD_getErrorName(size)});
    }
    out.resize(size);
    return out;
}

std::span<const std::byte> decompress(ZSTD_DCtx& context, std::span<const std::byte> frame, std::size_t most,
                                      Buffer& out) {
    if (frame.empty()) {
        out.resize(kSegmentPadding);
        return out.bytes().first(0);
    }
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > most) {
        refuse("a part of an impossible size");
    }
    out.resize(static_cast<std::size_t>(size) + kSegmentPadding);
    const std::size_t got =
        ZSTD_decompressDCtx(&context, out.data(), static_cast<std::size_t>(size), frame.data(), frame.size());
    if (ZSTD_isError(got) != 0 || got != size) {
        refuse("a part that zstd cannot read");
    }
    return out.bytes().first(got);
}

}  // namespace

std::vector<std::byte> write_group(const SegmentParts& parts) {
    std::vector<std::byte> out(std::size_t{4} * kParts);
    std::size_t place = 0;
    for (const auto* part : {&parts.front, &parts.masks, &parts.values, &parts.escapes}) {
        const std::vector<std::byte> small = compress(*part);
        for (std::size_t b = 0; b < 4; ++b) {
            out[place++] = static_cast<std::byte>(small.size() >> (8 * b));
        }
        out.insert(out.end(), small.begin(), small.end());
    }
    return out;
}

GroupReader::GroupReader() : zstd_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (zstd_ == nullptr) {
        throw IoError({.where = "host memory", .expected = "memory for zstd", .got = "none"});
    }
}

void GroupReader::read(std::span<const std::byte> group, std::span<const int> blocks, const SegmentKernels& kernels) {
    std::size_t all = 0;
    for (const int count : blocks) {
        all += static_cast<std::size_t>(count);
    }
    std::size_t at = std::size_t{4} * kParts;
    if (group.size() < at) {
        refuse("a truncated group");
    }
    std::span<const std::byte> parts[kParts];
    std::size_t total = 0;
    for (int p = 0; p < kParts; ++p) {
        const std::size_t size = load_le(group, std::size_t{4} * static_cast<std::size_t>(p), 4);
        if (size > group.size() - at) {
            refuse("a truncated group");
        }
        parts[p] = decompress(*zstd_, group.subspan(at, size), kMaxBytes[p] * all, parts_[static_cast<std::size_t>(p)]);
        at += size;
        total += parts[p].size();
    }
    segments_.resize(total + kSegmentPadding);
    ends_.clear();
    std::byte* out = segments_.data();
    for (const int count : blocks) {
        SegmentSizes sizes;
        if (!measure_segment(parts, count, kernels, scratch_, sizes)) {
            refuse("parts that do not fit together");
        }
        const std::size_t taken[kParts] = {sizes.front, sizes.masks, sizes.values, sizes.escapes};
        for (int p = 0; p < kParts; ++p) {
            std::memcpy(out, parts[p].data(), taken[p]);
            out += taken[p];
            parts[p] = parts[p].subspan(taken[p]);
        }
        ends_.push_back(static_cast<std::size_t>(out - segments_.data()));
    }
}

std::span<const std::byte> GroupReader::segment(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return segments_.bytes().subspan(begin, ends_[i] - begin);
}

}  // namespace stoker
