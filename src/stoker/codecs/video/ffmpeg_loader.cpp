#include "stoker/codecs/video/ffmpeg_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/own_modules.h"

namespace stoker {
namespace {

constexpr const char* kLibrary = "libstoker_ffmpeg.so";

struct Loaded {
    const FfmpegApi* api = nullptr;
    std::string why;
};

Loaded load_from(const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    if (library == nullptr) {
        return {.api = nullptr, .why = dlerror()};
    }
    const auto api = reinterpret_cast<const FfmpegApi* (*)()>(dlsym(library, kFfmpegApi));
    if (api == nullptr || api()->version != kFfmpegApiVersion) {
        return {.api = nullptr, .why = path + " of another release"};
    }
    return {.api = api(), .why = ""};
}

Loaded load() {
    for (const std::filesystem::path& folder : own_module_folders()) {
        const std::filesystem::path path = folder / kLibrary;
        if (std::error_code unknown; std::filesystem::exists(path, unknown)) {
            return load_from(path.string());
        }
    }
    return load_from(kLibrary);
}

}  // namespace

const FfmpegApi& ffmpeg() {
    static const Loaded loaded = load();
    if (loaded.api == nullptr) {
        throw IoError({.where = "video",
                       .expected = "FFmpeg's libraries, to decode videos and their sound",
                       .got = loaded.why,
                       .hint = "apt-get install ffmpeg, of the release that Stoker was built with; or build it again "
                               "with libavformat-dev, libavcodec-dev and libswscale-dev"});
    }
    return *loaded.api;
}

}  // namespace stoker
