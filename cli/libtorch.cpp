// A wheel has version.py, an unpacked LibTorch build-version.
#if defined(__GNUC__) && !defined(__clang__)  // false warning of GCC 12 in <regex> under sanitizers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "cli/libtorch.h"

#include <cstdlib>
#include <regex>
#include <system_error>

#include "cli/build_facts.h"
#include "stoker/base/file.h"

namespace stoker::cli {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::error_code missing;
    return fs::exists(path, missing) ? read_text(path) : "";
}

std::string first_group(const std::string& text, const std::string& pattern) {
    std::smatch groups;
    return std::regex_search(text, groups, std::regex(pattern)) ? groups[1].str() : "";
}

LibTorch read_libtorch(const fs::path& folder) {
    const std::string wheel = text_of(folder / "version.py");
    const std::string version = first_group(wheel, "__version__ = '([^']+)'");
    return {.folder = folder,
            .version = version.empty() ? first_group(text_of(folder / "build-version"), R"((\S+))") : version,
            .cuda = first_group(wheel, R"(\ncuda[^=\n]*= '([0-9.]+)')")};
}

LibTorch chosen_libtorch() {
    const char* chosen = std::getenv(kTorchVariable);
    const fs::path folder = chosen != nullptr && *chosen != '\0' ? chosen : kTorchFolder;
    return folder.empty() ? LibTorch{} : read_libtorch(folder);
}

std::string torch_release(const std::string& version) {
    return first_group(version, R"(^(\d+\.\d+))");
}

}  // namespace stoker::cli
