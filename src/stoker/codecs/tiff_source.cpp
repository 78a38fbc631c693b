// The callbacks run below C functions, so they do not throw.
#include "stoker/codecs/tiff_source.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

namespace stoker {
namespace {

TiffSource& source_of(thandle_t handle) {
    return *static_cast<TiffSource*>(handle);
}

tmsize_t read_source(thandle_t handle, void* to, tmsize_t size) {
    TiffSource& source = source_of(handle);
    const std::uint64_t left = source.bytes.size() - std::min<std::uint64_t>(source.at, source.bytes.size());
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, static_cast<std::uint64_t>(size)));
    std::copy_n(source.bytes.data() + (count > 0 ? source.at : 0), count, static_cast<std::byte*>(to));
    source.at += count;
    return static_cast<tmsize_t>(count);
}

tmsize_t write_nothing(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) {
    return 0;
}

toff_t seek_source(thandle_t handle, toff_t offset, int whence) {
    TiffSource& source = source_of(handle);
    const std::uint64_t from = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.bytes.size() : 0;
    return source.at = from + offset;
}

int close_source(thandle_t /*handle*/) {
    return 0;
}

toff_t size_of_source(thandle_t handle) {
    return source_of(handle).bytes.size();
}

int map_source(thandle_t handle, void** data, toff_t* size) {
    const std::span<const std::byte> bytes = source_of(handle).bytes;
    *data = const_cast<std::byte*>(bytes.data());  // which libtiff does not change in mode "r"
    *size = bytes.size();
    return 1;
}

void unmap_source(thandle_t /*handle*/, void* /*data*/, toff_t /*size*/) {}

int keep_error(TIFF* /*tiff*/, void* user, const char* /*module*/, const char* format, va_list arguments) {
    auto& source = *static_cast<TiffSource*>(user);
    if (source.error.front() == '\0') {
        std::vsnprintf(source.error.data(), source.error.size(), format, arguments);
    }
    return 1;
}

// A JPEG that does not fill its strip is reported as a warning, and leaves pixels as they were in memory.
int look_at_warning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
    return std::strstr(format, "Improper JPEG") != nullptr ? keep_error(tiff, user, module, format, arguments) : 1;
}

}  // namespace

TIFF* open_tiff(TiffSource& source) {
    constexpr tmsize_t kMostAtOnce = tmsize_t{1} << 31;  // of libtiff's own memory
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                   &TIFFOpenOptionsFree);
    if (options == nullptr) {
        throw std::bad_alloc();
    }
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostAtOnce);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_error, &source);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), look_at_warning, &source);
    return TIFFClientOpenExt("tiff", "r", &source, read_source, write_nothing, seek_source, close_source,
                             size_of_source, map_source, unmap_source, options.get());
}

}  // namespace stoker
