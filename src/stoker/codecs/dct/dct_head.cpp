// The head of a JPEG in a small record (FORMAT.md): compressed with a dictionary that has what most heads have.
#include <memory>
#include <zstd.h>

#include "stoker/base/error.h"
#include "stoker/codecs/dct/dct_record.h"

namespace stoker {
namespace {

// The segments of the Huffman tables K.3, K.5, K.4 and K.6 of T.81, which most encoders write.
constexpr std::uint8_t kHuffmanTables[] = {
    255, 196, 0,   31,  0,   0,   1,   5,   1,   1,   1,   1,   1,   1,   0,   0,   0,   0,   0,   0,   0,   0,   1,
    2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  255, 196, 0,   181, 16,  0,   2,   1,   3,   3,   2,   4,   3,
    5,   5,   4,   4,   0,   0,   1,   125, 1,   2,   3,   0,   4,   17,  5,   18,  33,  49,  65,  6,   19,  81,  97,
    7,   34,  113, 20,  50,  129, 145, 161, 8,   35,  66,  177, 193, 21,  82,  209, 240, 36,  51,  98,  114, 130, 9,
    10,  22,  23,  24,  25,  26,  37,  38,  39,  40,  41,  42,  52,  53,  54,  55,  56,  57,  58,  67,  68,  69,  70,
    71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,  100, 101, 102, 103, 104, 105, 106, 115, 116, 117,
    118, 119, 120, 121, 122, 131, 132, 133, 134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162,
    163, 164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199,
    200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 241,
    242, 243, 244, 245, 246, 247, 248, 249, 250, 255, 196, 0,   31,  1,   0,   3,   1,   1,   1,   1,   1,   1,   1,
    1,   1,   0,   0,   0,   0,   0,   0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  255, 196, 0,   181,
    17,  0,   2,   1,   2,   4,   4,   3,   4,   7,   5,   4,   4,   0,   1,   2,   119, 0,   1,   2,   3,   17,  4,
    5,   33,  49,  6,   18,  65,  81,  7,   97,  113, 19,  34,  50,  129, 8,   20,  66,  145, 161, 177, 193, 9,   35,
    51,  82,  240, 21,  98,  114, 209, 10,  22,  36,  52,  225, 37,  241, 23,  24,  25,  26,  38,  39,  40,  41,  42,
    53,  54,  55,  56,  57,  58,  67,  68,  69,  70,  71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,
    100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119, 120, 121, 122, 130, 131, 132, 133, 134, 135, 136, 137,
    138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181,
    182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218,
    226, 227, 228, 229, 230, 231, 232, 233, 234, 242, 243, 244, 245, 246, 247, 248, 249, 250,
};
constexpr int kLevel = 19;

}  // namespace

std::vector<std::byte> head_dictionary(const JpegFrame& frame) {
    std::vector<std::byte> bytes;
    for (const std::uint8_t byte : kHuffmanTables) {
        bytes.push_back(static_cast<std::byte>(byte));
    }
    for (int c = 0; c < frame.components; ++c) {
        for (const std::uint8_t place : kZigzag) {
            bytes.push_back(static_cast<std::byte>(frame.component[JpegFrame::at(c)].quant[place]));
        }
    }
    return bytes;
}

std::vector<std::byte> pack_head(const JpegFrame& frame, std::span<const std::byte> head) {
    const std::vector<std::byte> dictionary = head_dictionary(frame);
    const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
    std::vector<std::byte> out(ZSTD_compressBound(head.size()));
    const std::size_t size = zstd == nullptr
                                 ? 0
                                 : ZSTD_compress_usingDict(zstd.get(), out.data(), out.size(), head.data(), head.size(),
                                                           dictionary.data(), dictionary.size(), kLevel);
    if (zstd == nullptr || ZSTD_isError(size) != 0) {
        throw InternalError({.where = "zstd", .expected = "a compressed head", .got = "an error"});
    }
    out.resize(size);
    return out;
}

std::vector<std::byte> unpack_head(const DctHeader& header) {
    if ((header.flags & DctFlags::kSmall) == 0) {
        return {header.head.begin(), header.head.end()};
    }
    const unsigned long long size = ZSTD_getFrameContentSize(header.head.data(), header.head.size());
    if (size > kMaxPackedHead) {  // the two special values too
        throw DataError({}, {.where = "dct", .expected = "a head of at most 1 MiB", .got = "another size"});
    }
    const std::vector<std::byte> dictionary = head_dictionary(header.frame);
    const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
    std::vector<std::byte> out(static_cast<std::size_t>(size));
    if (zstd == nullptr ||
        ZSTD_decompress_usingDict(zstd.get(), out.data(), out.size(), header.head.data(), header.head.size(),
                                  dictionary.data(), dictionary.size()) != size) {
        throw DataError({}, {.where = "dct", .expected = "a head that zstd can read", .got = "other bytes"});
    }
    return out;
}

}  // namespace stoker
