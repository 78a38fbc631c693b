// A context takes about 160 KB, so each thread keeps one.
#include "stoker/io/zstd.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <string>

#include "stoker/base/error.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "zstd", .expected = std::move(expected), .got = std::move(got)});
}

ZSTD_DCtx* thread_context() {
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    thread_local std::unique_ptr<ZSTD_DCtx, Free> context;
    if (context == nullptr) {
        context.reset(ZSTD_createDCtx());
    }
    if (context == nullptr) {
        throw std::bad_alloc();
    }
    return context.get();
}

}  // namespace

bool is_zstd(std::span<const std::byte> bytes) {
    constexpr std::array<std::byte, 4> kMagic = {std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
    return bytes.size() >= kMagic.size() && std::ranges::equal(bytes.first(kMagic.size()), kMagic);
}

std::optional<std::uint64_t> zstd_stated_size(std::span<const std::byte> head) {
    const unsigned long long size = ZSTD_getFrameContentSize(head.data(), head.size());
    const bool known = size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN;
    return known ? std::optional<std::uint64_t>(size) : std::nullopt;
}

std::uint64_t zstd_content_size(std::span<const std::byte> frame) {
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_ERROR) {
        refuse("a zstd frame", fmt::format("{} other bytes", frame.size()));
    }
    if (size == ZSTD_CONTENTSIZE_UNKNOWN) {
        refuse("a zstd frame that states the size of its content", "none");
    }
    if (size > frame.size() * kMaxZstdRatio) {
        refuse(fmt::format("content that {} bytes can hold", frame.size()), fmt::format("{} bytes", size));
    }
    return size;
}

void unzstd(std::span<const std::byte> frame, std::span<std::byte> out) {
    const std::size_t got = ZSTD_decompressDCtx(thread_context(), out.data(), out.size(), frame.data(), frame.size());
    if (ZSTD_isError(got) != 0) {
        refuse("a sound zstd frame", ZSTD_getErrorName(got));
    }
    if (got != out.size()) {
        refuse(fmt::format("{} bytes of content", out.size()), fmt::format("{}", got));
    }
}

}  // namespace stoker
