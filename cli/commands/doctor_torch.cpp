// LibTorch is installed as a Python wheel, with each CUDA library in another wheel next to it. The engine prints which
// LibTorch it loads; versions are read from file names and text files.
#if defined(__GNUC__) && !defined(__clang__)  // false warning of GCC 12 in <regex> under sanitizers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <algorithm>
#include <fmt/format.h>
#include <regex>
#include <system_error>

#include "cli/build_facts.h"
#include "cli/commands/doctor.h"
#include "cli/engine_exec.h"
#include "cli/terminal/subprocess.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

// The folder "torch" whose lib/libtorch_cpu.so the engine is loaded with.
fs::path loaded_torch(const LibTorch& chosen) {
    const std::atomic<int> never = 0;
    const std::string path = library_path(chosen);
    std::vector<std::string> words = {find_engine(chosen, "LibTorch").string(), kPrintLibTorch};
    if (!path.empty()) {
        words.insert(words.begin(), {"env", path});
    }
    std::string folder = run_subprocess(words, never);
    folder.erase(std::min(folder.find('\n'), folder.size()));
    return folder;
}

// `loaded`: as the engine reports it; `chosen`: the one for which it is started.
Check check_libtorch(const LibTorch& loaded, const LibTorch& chosen) {
    const std::string release = torch_release(chosen.version.empty() ? kTorchVersion : chosen.version);
    const bool same = torch_release(loaded.version) == release;
    const bool moved = *kTorchFolder != '\0' && loaded.folder != fs::weakly_canonical(kTorchFolder);
    return {
        .name = "LibTorch",
        .status = same ? CheckStatus::ok : CheckStatus::fail,
        .found = fmt::format("{} in {}{}", loaded.version.empty() ? "an unknown version" : loaded.version,
                             loaded.folder.string(), moved ? " (not the build-time folder)" : ""),
        .expected = fmt::format("{}, which the engine is built for", release),
        .why = "code compiled for another release may crash or compute wrong results",
        .fix = same ? ""
                    : fmt::format("set {} to the folder of torch {}, or build Stoker again", kTorchVariable, release)};
}

// A CUDA library that torch needs, and where its version can be read.
struct Library {
    const char* name;
    const char* wheel;    // nvidia_<wheel>[_cuNN]-<version>.dist-info next to torch
    const char* bundled;  // or torch/lib/<bundled>*, in wheels that contain all libraries
    const char* use;
};
constexpr const char* kBundled = "in LibTorch's own folder";
constexpr Library kLibraries[] = {
    {"CUDA runtime", "cuda_runtime", "libcudart", "everything"},
    {"cuDNN", "cudnn", "libcudnn", "convolutions"},
    {"NCCL", "nccl", "libnccl", "training on several GPUs"},
};

// True if `version` is "13.0.96" and `required` "13.0" or empty.
bool satisfies(const std::string& version, const std::string& required) {
    return required.empty() || (version + ".").starts_with(required + ".");
}

// `cuda`: LibTorch's. Wheels of other CUDA versions may be installed as well.
std::string installed_version(const Library& library, const fs::path& torch, const std::string& cuda,
                              const std::string& required) {
    std::error_code unreadable;  // then the check reports that nothing was found
    const std::regex wheel(
        fmt::format(R"(nvidia_{}(?:_cu{})?-([0-9.]+)\.dist-info)", library.wheel, cuda.substr(0, cuda.find('.'))));
    std::string other;
    std::smatch groups;
    for (const auto& entry : fs::directory_iterator(torch.parent_path(), unreadable)) {
        const std::string name = entry.path().filename().string();
        if (!std::regex_match(name, groups, wheel)) {
            continue;
        }
        if (satisfies(groups[1], required)) {
            return groups[1];
        }
        other = std::max(other, groups[1].str());
    }
    if (!other.empty()) {
        return other;
    }
    for (const auto& entry : fs::directory_iterator(torch / "lib", unreadable)) {
        if (entry.path().filename().string().starts_with(library.bundled)) {
            return kBundled;
        }
    }
    return "";
}

// "9.19.0.56" if torch's metadata requires exactly that version.
std::string required_version(const Library& library, const fs::path& torch) {
    std::string wheel = library.wheel;
    std::ranges::replace(wheel, '_', '-');
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator(torch.parent_path(), unreadable)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("torch-") && name.ends_with(".dist-info")) {
            return first_group(text_of(entry.path() / "METADATA"),
                               fmt::format(R"(Requires-Dist: nvidia-{}(?:-cu\d+)? ?\(?==([0-9.]+))", wheel));
        }
    }
    return "";
}

Check check_library(const Library& library, const fs::path& torch, const std::string& cuda) {
    std::string required = required_version(library, torch);
    if (required.empty() && std::string_view(library.wheel) == "cuda_runtime") {
        required = cuda;  // torch 2.11 requires it through the wheel "cuda-toolkit" of this version
    }
    const std::string found = installed_version(library, torch, cuda, required);
    const bool good = !found.empty() && (found == kBundled || satisfies(found, required));
    return {.name = library.name,
            .status = good ? CheckStatus::ok : CheckStatus::warn,
            .found = found.empty() ? "none beside LibTorch" : found,
            .expected = required.empty() ? "any version" : required,
            .why = fmt::format("LibTorch needs it for {} on the GPU", library.use),
            .fix = good ? "" : "pip install --force-reinstall torch, in the same version"};
}

Check without_engine() {
    return {.name = "LibTorch",
            .status = CheckStatus::warn,
            .found = "none: the engine is not installed with this program",
            .expected = "the engine, Stoker's part that needs LibTorch",
            .why = "training and evaluation need it; the data commands do not",
            .fix = "pip install stoker-engine, or build and install with STOKER_ENGINE=ON"};
}

Check engine_does_not_start(const Error& error, const LibTorch& torch) {
    return {.name = "LibTorch",
            .status = CheckStatus::fail,
            .found = error.what(),
            .expected = fmt::format("an engine that starts and loads {}",
                                    torch.version.empty() ? kTorchVersion : torch.version.c_str()),
            .why = "training and evaluation need it",
            .fix = fmt::format("set {} to the folder of another torch, or build Stoker again", kTorchVariable)};
}

}  // namespace

TorchChecks check_torch() {
    if (!has_engine()) {
        return {.checks = {without_engine()}};
    }
    const LibTorch chosen = chosen_libtorch();
    LibTorch torch;
    try {
        torch = read_libtorch(loaded_torch(chosen));
    } catch (const Error& error) {
        return {.checks = {engine_does_not_start(error, chosen)}};
    }
    TorchChecks result{.checks = {check_libtorch(torch, chosen)}, .cuda = torch.cuda, .folder = torch.folder};
    if (!torch.cuda.empty()) {
        for (const Library& library : kLibraries) {
            result.checks.push_back(check_library(library, torch.folder, torch.cuda));
        }
    }
    return result;
}

}  // namespace stoker::cli
