// zlib counts input and output in 32 bits. Both directions work in chunks, so that files beyond 4 GiB pass.
#include "stoker/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 30;
constexpr int kZlibWindow = 15;                // the largest window, with zlib's header and checksum
constexpr int kGzipWindow = kZlibWindow + 16;  // the same, with those of gzip

// zlib never writes to its input, but declares it const only if ZLIB_CONST is defined.
Bytef* input(const std::byte* data) {
    return reinterpret_cast<Bytef*>(const_cast<std::byte*>(data));
}

[[noreturn]] void fail(const char* step, int code) {
    throw InternalError({.where = "zlib", .expected = step, .got = fmt::format("code {}", code)});
}

}  // namespace

struct GzipReader::Stream {
    z_stream z{};

    explicit Stream(bool zlib) {
        if (const int code = ::inflateInit2(&z, zlib ? kZlibWindow : kGzipWindow); code != Z_OK) {
            fail("inflateInit2", code);
        }
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { ::inflateEnd(&z); }
};

bool is_gzip(std::span<const std::byte> bytes) {
    return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

bool is_zlib(std::span<const std::byte> bytes) {
    const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    constexpr unsigned kDeflate = 8;  // with a window of at most 2^(7 + 8) bytes
    constexpr unsigned kDictionary = 0x20;
    return bytes.size() >= 2 && (at(0) & 0xf) == kDeflate && at(0) >> 4 <= 7 && (at(1) & kDictionary) == 0 &&
           (at(0) << 8 | at(1)) % 31 == 0;
}

GzipReader::GzipReader(std::span<const std::byte> packed, bool zlib)
    : packed_(packed), zlib_(zlib), stream_(std::make_unique<Stream>(zlib)) {}

GzipReader::~GzipReader() = default;

std::size_t GzipReader::read(std::span<std::byte> out) {
    z_stream& z = stream_->z;
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
        const std::size_t left = std::min(packed_.size() - offset_, kChunk);
        const std::size_t room = std::min(out.size() - done, kChunk);
        z.next_in = input(packed_.data() + offset_);
        z.avail_in = static_cast<uInt>(left);
        z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
        z.avail_out = static_cast<uInt>(room);
        const int code = ::inflate(&z, Z_NO_FLUSH);
        offset_ += left - z.avail_in;
        done += room - z.avail_out;
        written_ += room - z.avail_out;
        if (code == Z_STREAM_END) {
            end_member();
        } else if (code == Z_BUF_ERROR) {  // room to write, nothing left to read
            ended_ = true;
            truncated_ = true;
        } else if (code != Z_OK) {
            throw DataError({.path = "", .offset = offset()},
                            {.where = zlib_ ? "zlib" : "gzip",
                             .expected = zlib_ ? "a sound zlib stream" : "a sound gzip stream",
                             .got = z.msg != nullptr ? z.msg : fmt::format("zlib code {}", code)});
        }
    }
    return done;
}

void GzipReader::end_member() {
    const auto rest = packed_.subspan(offset_);
    // Like gzip, we ignore zeros that pad an archive.
    const bool padding = std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{0}; });
    if (padding) {
        ended_ = true;
    } else if (zlib_ || !is_gzip(rest)) {
        throw DataError({.path = "", .offset = offset()},
                        {.where = zlib_ ? "zlib" : "gzip",
                         .expected = zlib_ ? "the end of the file" : "the end of the file or another gzip member",
                         .got = fmt::format("{} other bytes", rest.size())});
    } else if (const int code = ::inflateReset(&stream_->z); code != Z_OK) {
        fail("inflateReset", code);
    }
}

Buffer gzip(std::span<const std::span<const std::byte>> pieces) {
    z_stream z{};
    if (const int code = ::deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
        code != Z_OK) {
        fail("deflateInit2", code);
    }
    const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&z, ::deflateEnd);
    std::size_t total = 0;
    for (const auto piece : pieces) {
        total += piece.size();
    }
    Buffer packed(::deflateBound(&z, total));
    std::size_t size = 0;
    const auto feed = [&](std::span<const std::byte> bytes, int flush) {
        z.next_in = input(bytes.data());
        z.avail_in = static_cast<uInt>(bytes.size());
        int code = Z_OK;
        do {
            const std::size_t room = std::min(packed.size() - size, kChunk);
            z.next_out = reinterpret_cast<Bytef*>(packed.data() + size);
            z.avail_out = static_cast<uInt>(room);
            code = ::deflate(&z, flush);
            size += room - z.avail_out;
            if (code != Z_OK && code != Z_STREAM_END) {
                fail("deflate", code);
            }
        } while (z.avail_in > 0 || (flush == Z_FINISH && code != Z_STREAM_END));
    };
    for (auto piece : pieces) {
        for (; !piece.empty(); piece = piece.subspan(std::min(piece.size(), kChunk))) {
            feed(piece.first(std::min(piece.size(), kChunk)), Z_NO_FLUSH);
        }
    }
    feed({}, Z_FINISH);
    packed.resize(size);
    return packed;
}

}  // namespace stoker
