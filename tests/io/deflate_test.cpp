#include "stoker/io/deflate.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

namespace stoker {
namespace {

std::vector<std::byte> packed(std::span<const std::byte> bytes) {
    std::vector<std::byte> out(::compressBound(bytes.size()));
    uLongf size = out.size();
    ::compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    out.resize(size);
    return out;
}

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * i % 251);
    }
    return bytes;
}

TEST(Inflate, GivesWhatZlibDeflated) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
        const std::vector<std::byte> bytes = pattern(size);
        const std::vector<std::byte> zlib = packed(bytes);
        std::vector<std::byte> out(size);
        EXPECT_TRUE(inflate(zlib, DeflateForm::zlib, out));
        EXPECT_EQ(out, bytes);
        out.assign(size, std::byte{});
        const auto raw = std::span(zlib).subspan(2, zlib.size() - 6);  // without header and checksum
        EXPECT_TRUE(inflate(raw, DeflateForm::raw, out));
        EXPECT_EQ(out, bytes);
    }
}

TEST(Inflate, RefusesOtherSizesAndDamage) {
    const std::vector<std::byte> bytes = pattern(1000);
    std::vector<std::byte> zlib = packed(bytes);
    std::vector<std::byte> out(999);
    EXPECT_FALSE(inflate(zlib, DeflateForm::zlib, out));
    out.resize(1001);
    EXPECT_FALSE(inflate(zlib, DeflateForm::zlib, out));
    out.resize(1000);
    EXPECT_FALSE(inflate(std::span(zlib).first(zlib.size() - 1), DeflateForm::zlib, out));
    EXPECT_FALSE(inflate({}, DeflateForm::zlib, out));
    zlib.back() ^= std::byte{1};  // the checksum
    EXPECT_FALSE(inflate(zlib, DeflateForm::zlib, out));
}

}  // namespace
}  // namespace stoker
