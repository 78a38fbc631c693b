#include "stoker/codecs/j2k_planes.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "stoker/base/error.h"
#include "stoker/codecs/j2k_header.h"
#include "stoker/codecs/loaded_library.h"

namespace stoker {
namespace {

struct Openjpeg {
    LoadedLibrary library{"libopenjp2.so.7"};
    decltype(&opj_create_decompress) create = nullptr;
    decltype(&opj_destroy_codec) destroy = nullptr;
    decltype(&opj_set_default_decoder_parameters) defaults = nullptr;
    decltype(&opj_setup_decoder) setup = nullptr;
    decltype(&opj_codec_set_threads) set_threads = nullptr;
    decltype(&opj_set_error_handler) on_error = nullptr;
    decltype(&opj_read_header) read_header = nullptr;
    decltype(&opj_decode) decode = nullptr;
    decltype(&opj_end_decompress) end = nullptr;
    decltype(&opj_image_destroy) destroy_image = nullptr;
    decltype(&opj_stream_create) create_stream = nullptr;
    decltype(&opj_stream_destroy) destroy_stream = nullptr;
    decltype(&opj_stream_set_user_data) set_user = nullptr;
    decltype(&opj_stream_set_user_data_length) set_length = nullptr;
    decltype(&opj_stream_set_read_function) set_read = nullptr;
    decltype(&opj_stream_set_skip_function) set_skip = nullptr;
    decltype(&opj_stream_set_seek_function) set_seek = nullptr;

    Openjpeg() {
        library.find("opj_create_decompress", create);
        library.find("opj_destroy_codec", destroy);
        library.find("opj_set_default_decoder_parameters", defaults);
        library.find("opj_setup_decoder", setup);
        library.find("opj_codec_set_threads", set_threads);
        library.find("opj_set_error_handler", on_error);
        library.find("opj_read_header", read_header);
        library.find("opj_decode", decode);
        library.find("opj_end_decompress", end);
        library.find("opj_image_destroy", destroy_image);
        library.find("opj_stream_create", create_stream);
        library.find("opj_stream_destroy", destroy_stream);
        library.find("opj_stream_set_user_data", set_user);
        library.find("opj_stream_set_user_data_length", set_length);
        library.find("opj_stream_set_read_function", set_read);
        library.find("opj_stream_set_skip_function", set_skip);
        library.find("opj_stream_set_seek_function", set_seek);
    }
};

const Openjpeg& openjpeg() {
    static const Openjpeg functions;
    functions.library.require("OpenJPEG", "JPEG 2000", "libopenjp2-7");
    return functions;
}

// Bytes in memory as a stream of OpenJPEG, with the first error that it reports.
struct Source {
    std::span<const std::byte> bytes;
    std::size_t at = 0;
    std::string error;

    static OPJ_SIZE_T read(void* to, OPJ_SIZE_T size, void* user) {
        auto& self = *static_cast<Source*>(user);
        const std::size_t count = std::min<std::size_t>(size, self.bytes.size() - self.at);
        std::memcpy(to, self.bytes.data() + self.at, count);
        self.at += count;
        return count == 0 ? static_cast<OPJ_SIZE_T>(-1) : count;
    }
    static OPJ_OFF_T skip(OPJ_OFF_T count, void* user) {
        auto& self = *static_cast<Source*>(user);
        const auto left = static_cast<OPJ_OFF_T>(self.bytes.size() - self.at);
        if (count < 0 || count > left) {
            return -1;
        }
        self.at += static_cast<std::size_t>(count);
        return count;
    }
    static OPJ_BOOL seek(OPJ_OFF_T to, void* user) {
        auto& self = *static_cast<Source*>(user);
        if (to < 0 || to > static_cast<OPJ_OFF_T>(self.bytes.size())) {
            return OPJ_FALSE;
        }
        self.at = static_cast<std::size_t>(to);
        return OPJ_TRUE;
    }
    static void note(const char* message, void* user) {
        auto& self = *static_cast<Source*>(user);
        if (self.error.empty()) {
            self.error = message;
            std::ranges::replace(self.error, '\n', ' ');
            self.error.erase(self.error.find_last_not_of(' ') + 1);
        }
    }
};

}  // namespace

J2kPlanes decode_j2k(std::span<const std::byte> bytes) {
    constexpr OPJ_SIZE_T kBlock = OPJ_SIZE_T{1} << 16;
    const Openjpeg& lib = openjpeg();
    Source source{.bytes = bytes, .error = {}};
    const std::unique_ptr<opj_stream_t, decltype(&opj_stream_destroy)> stream(
        lib.create_stream(std::clamp<OPJ_SIZE_T>(bytes.size(), 64, kBlock), OPJ_TRUE), lib.destroy_stream);
    const std::unique_ptr<opj_codec_t, decltype(&opj_destroy_codec)> codec(
        lib.create(is_jp2(bytes) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), lib.destroy);
    J2kPlanes image(nullptr, lib.destroy_image);
    if (stream == nullptr || codec == nullptr) {
        throw IoError({.where = "host memory", .expected = "memory to decode a JPEG 2000", .got = "none"});
    }
    lib.set_user(stream.get(), &source, nullptr);
    lib.set_length(stream.get(), bytes.size());
    lib.set_read(stream.get(), Source::read);
    lib.set_skip(stream.get(), Source::skip);
    lib.set_seek(stream.get(), Source::seek);
    lib.on_error(codec.get(), Source::note, &source);
    opj_dparameters_t parameters{};
    lib.defaults(&parameters);
    opj_image_t* found = nullptr;
    bool good = lib.setup(codec.get(), &parameters) != OPJ_FALSE;
    lib.set_threads(codec.get(), 0);  // whatever OPJ_NUM_THREADS says
    good = good && lib.read_header(stream.get(), codec.get(), &found) != OPJ_FALSE;
    image.reset(found);
    good = good && lib.decode(codec.get(), stream.get(), found) != OPJ_FALSE &&
           lib.end(codec.get(), stream.get()) != OPJ_FALSE;
    if (!good) {
        throw DataError({}, {.where = "jp2",
                             .expected = "a valid JPEG 2000",
                             .got = source.error.empty() ? "damaged data" : source.error});
    }
    return image;
}

}  // namespace stoker
