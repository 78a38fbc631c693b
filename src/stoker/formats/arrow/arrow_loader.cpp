#include "stoker/formats/arrow/arrow_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/own_modules.h"

#ifndef STOKER_PYARROW_FOLDER
#define STOKER_PYARROW_FOLDER ""
#endif

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "libstoker_arrow-";
constexpr std::string_view kEnding = ".so";

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Folders with libarrow.so.RELEASE; "": the system's own search.
std::vector<fs::path> arrow_folders() {
    std::vector<fs::path> folders;
    const auto add = [&](const fs::path& folder) {
        std::error_code unknown;
        if (!folder.empty() && fs::is_directory(folder, unknown)) {
            folders.push_back(folder);
        }
    };
    add(environment("STOKER_PYARROW"));
    for (const fs::path& folder : own_module_folders()) {  // site-packages/stoker, site-packages/stoker/bin
        add(folder / "../pyarrow");
        add(folder / "../../pyarrow");
    }
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const fs::path root = environment(name);
        std::error_code missing;
        if (root.empty()) {
            continue;
        }
        for (const auto& entry : fs::directory_iterator(root / "lib", missing)) {
            if (entry.path().filename().string().starts_with("python3")) {
                add(entry.path() / "site-packages/pyarrow");
            }
        }
        add(root / "lib");
    }
    add(STOKER_PYARROW_FOLDER);
    folders.emplace_back();
    return folders;
}

struct Loaded {
    const ArrowApi* api = nullptr;
    std::string why = "none";
};

// The libraries first: the module then finds them by their names, wherever they are.
Loaded load_from(const fs::path& folder, const std::string& release, const fs::path& module) {
    for (const char* library : {"libarrow.so.", "libparquet.so."}) {
        const std::string name = library + release;
        if (dlopen((folder.empty() ? name : (folder / name).string()).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
            return {.api = nullptr, .why = dlerror()};
        }
    }
    void* const opened = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    if (opened == nullptr) {
        return {.api = nullptr, .why = dlerror()};
    }
    const auto api = reinterpret_cast<const ArrowApi* (*)()>(dlsym(opened, kArrowApi));
    if (api == nullptr || api()->version != kArrowApiVersion) {
        return {.api = nullptr, .why = module.string() + " of another release of Stoker"};
    }
    return {.api = api(), .why = ""};
}

fs::path module_of(const std::vector<fs::path>& folders, const std::string& release) {
    for (const fs::path& folder : folders) {
        const fs::path path = folder / fmt::format("{}{}{}", kPrefix, release, kEnding);
        if (std::error_code unknown; fs::exists(path, unknown)) {
            return path;
        }
    }
    return {};
}

// "libarrow.so.2300 in ...", for a folder of a release without a module.
std::string other_release(const fs::path& folder) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("libarrow.so.")) {
            return fmt::format("{} in {}", name, folder.string());
        }
    }
    return "";
}

Loaded load() {
    const std::vector<fs::path> modules = own_module_folders();
    Loaded last;
    for (const fs::path& folder : arrow_folders()) {
        std::error_code unknown;
        for (const std::string& release : arrow_releases(modules)) {
            if (!folder.empty() && !fs::exists(folder / ("libarrow.so." + release), unknown)) {
                continue;
            }
            Loaded loaded = load_from(folder, release, module_of(modules, release));
            if (loaded.api != nullptr) {
                return loaded;
            }
            if (!folder.empty()) {  // else no file may be there at all
                last = std::move(loaded);
            }
        }
        if (const std::string other = folder.empty() ? "" : other_release(folder);
            last.why == "none" && !other.empty()) {
            last.why = other;
        }
    }
    return last;
}

}  // namespace

std::vector<std::string> arrow_releases(const std::vector<fs::path>& folders) {
    std::vector<std::string> releases;
    for (const fs::path& folder : folders) {
        std::error_code missing;
        for (const auto& entry : fs::directory_iterator(folder, missing)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with(kPrefix) && name.ends_with(kEnding)) {
                releases.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kEnding.size()));
            }
        }
    }
    std::ranges::sort(releases, std::ranges::greater());
    releases.erase(std::unique(releases.begin(), releases.end()), releases.end());
    return releases;
}

const ArrowApi& arrow_api() {
    static const Loaded loaded = load();
    if (loaded.api == nullptr) {
        const std::vector<std::string> releases = arrow_releases(own_module_folders());
        std::vector<std::string> shown;
        for (const std::string& release : releases) {  // 2600 is 26.0
            shown.push_back(release.substr(0, release.size() > 2 ? release.size() - 2 : 0));
        }
        throw IoError({.where = "Parquet and Arrow files",
                       .expected = releases.empty() ? "a Stoker that was built with pyarrow"
                                                    : fmt::format("pyarrow {}", fmt::join(shown, ", ")),
                       .got = loaded.why,
                       .hint = releases.empty()
                                   ? "build it again in an environment that has pyarrow"
                                   : fmt::format("pip install \"pyarrow=={}.*\"; STOKER_PYARROW may name its folder",
                                                 shown.front())});
    }
    return *loaded.api;
}

}  // namespace stoker
