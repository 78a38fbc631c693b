#include "stoker/io/deflate.h"

#include <libdeflate.h>

#include <memory>
#include <new>

namespace stoker {
namespace {

using Decompressor = std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>;

}  // namespace

bool inflate(std::span<const std::byte> packed, DeflateForm form, std::span<std::byte> out) {
    thread_local Decompressor decompressor(nullptr, &libdeflate_free_decompressor);
    if (decompressor == nullptr) {
        decompressor.reset(libdeflate_alloc_decompressor());
    }
    if (decompressor == nullptr) {
        throw std::bad_alloc();
    }
    const auto run = form == DeflateForm::zlib ? libdeflate_zlib_decompress : libdeflate_deflate_decompress;
    // Without a place for the number of bytes, other sizes than `out` has are an error.
    return run(decompressor.get(), packed.data(), packed.size(), out.data(), out.size(), nullptr) == LIBDEFLATE_SUCCESS;
}

}  // namespace stoker
