// Checks of CUDA libraries that are installed in addition to LibTorch's: a toolkit to build extensions with, and
// libraries in LD_LIBRARY_PATH that are loaded instead of LibTorch's own.
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <system_error>

#include "cli/commands/doctor.h"
#include "cli/terminal/table.h"
#include "stoker/base/file.h"
#include "stoker/base/parse_number.h"
#include "stoker/monitor/counter_text.h"
#include "stoker/monitor/host_settings.h"
#include "stoker/monitor/library_search.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
}

fs::path toolkit_folder() {
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        if (std::string folder = environment(name); !folder.empty()) {
            return folder;
        }
    }
    return "/usr/local/cuda";
}

int major(std::string_view version) {
    return parse_number<int>(version.substr(0, version.find('.'))).value_or(0);
}

void add_toolkit(const std::string& torch_cuda, std::vector<Check>& checks) {
    const fs::path folder = toolkit_folder();
    const std::string version = toolkit_version(read_counter_file(folder / "version.json").value_or(""));
    if (version.empty()) {
        return;  // training needs none
    }
    const bool fits = major(version) == major(torch_cuda);
    checks.push_back(
        {.name = "CUDA toolkit",
         .status = fits ? CheckStatus::ok : CheckStatus::warn,
         .found = fmt::format("{} in {}, LibTorch for CUDA {}", version, for_terminal(folder.string(), 80), torch_cuda),
         .expected = fmt::format("a toolkit {}.x", major(torch_cuda)),
         .why = "CUDA code that is built with another major version does not load together with LibTorch",
         .fix = fits ? ""
                     : fmt::format("install the CUDA toolkit {0}.x and set CUDA_HOME, or a torch for CUDA {1}",
                                   major(torch_cuda), major(version))});
}

// True if the folder has one of the libraries that libcudnn.so.9 loads.
bool has_cudnn_parts(const fs::path& folder) {
    std::error_code unreadable;
    for (fs::directory_iterator entry(folder, unreadable), end; entry != end; entry.increment(unreadable)) {
        const std::string name = entry->path().filename();
        if (name.starts_with("libcudnn_") && name.ends_with(".so.9")) {
            return true;
        }
    }
    return false;
}

// The libraries in LD_LIBRARY_PATH that are loaded instead of LibTorch's. The wheels of LibTorch name the folders of
// their libraries by RPATH, which is searched before; cuDNN names that of its parts by RUNPATH, which is searched
// later.
std::vector<std::string> shadowing_libraries(const fs::path& torch) {
    std::vector<const char*> names;
    if (torch.empty() || environment_comes_first(torch / "lib/libtorch_cuda.so")) {
        names = {"libcudnn.so.9", "libnccl.so.2", "libcudart.so.12", "libcudart.so.13"};
    }
    std::vector<std::string> found;
    const std::string path = environment("LD_LIBRARY_PATH");
    for (std::size_t start = 0; start < path.size();) {
        const std::size_t end = std::min(path.find(':', start), path.size());
        const fs::path folder = path.substr(start, end - start);
        start = end + 1;
        if (folder.empty()) {
            continue;
        }
        for (const char* name : names) {
            if (is_file(folder / name)) {
                found.push_back(for_terminal((folder / name).string(), 80));
            }
        }
        if (has_cudnn_parts(folder)) {
            found.push_back(for_terminal((folder / "libcudnn_*.so.9").string(), 80));
        }
    }
    return found;
}

Check check_library_path(const std::vector<std::string>& found) {
    constexpr const char* kNone = "no library in LD_LIBRARY_PATH that comes before LibTorch's";
    return {.name = "library path",
            .status = found.empty() ? CheckStatus::ok : CheckStatus::warn,
            .found = found.empty() ? kNone : fmt::format("{}", fmt::join(found, ", ")),
            .expected = kNone,
            .why = "it is loaded instead of the one that LibTorch was built with, or keeps LibTorch from loading",
            .fix = found.empty() ? "" : "unset LD_LIBRARY_PATH, or remove these folders from it"};
}

}  // namespace

std::vector<Check> check_cuda_files(const TorchChecks& torch) {
    std::vector<Check> checks;
    if (!torch.cuda.empty()) {
        add_toolkit(torch.cuda, checks);
    }
    const std::vector<std::string> shadowing = shadowing_libraries(torch.folder);
    // Also if LibTorch does not load, perhaps because of them. One without CUDA needs none of these libraries.
    if (!torch.cuda.empty() || (torch.folder.empty() && !shadowing.empty())) {
        checks.push_back(check_library_path(shadowing));
    }
    return checks;
}

}  // namespace stoker::cli
