#include "stoker/codecs/video/ffmpeg_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "stoker/base/error.h"

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

// Next to this program or module, or where a build, a wheel or an installation has it.
Loaded load() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&load), &self) != 0) {
        const std::filesystem::path folder = std::filesystem::path(self.dli_fname).parent_path();
        for (const char* place : {".", "bin", "../../bin", "../stoker/bin", "../libexec/stoker"}) {
            const std::filesystem::path path = folder / place / kLibrary;
            if (std::error_code unknown; std::filesystem::exists(path, unknown)) {
                return load_from(path.string());
            }
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
