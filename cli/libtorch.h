// The LibTorch that the engine loads, read from its text files: this program does not load it.
#pragma once

#include <filesystem>
#include <string>

namespace stoker::cli {

// Names the folder "torch" of a Python environment, in place of the one at build time.
inline constexpr const char* kTorchVariable = "STOKER_TORCH";

struct LibTorch {
    std::filesystem::path folder;  // "torch" of a Python environment, or an unpacked LibTorch; empty: none is known
    std::string version;           // 2.11.0+cu130; empty if the folder does not contain LibTorch
    std::string cuda;              // 13.0; empty: for CPUs only, or unknown
};

// The text of a file, empty where it cannot be read; the first group of `pattern` in a text, empty without a match.
std::string text_of(const std::filesystem::path& path);
std::string first_group(const std::string& text, const std::string& pattern);

// Reads the version of the LibTorch in `folder`.
LibTorch read_libtorch(const std::filesystem::path& folder);

// $STOKER_TORCH, or the one at build time.
LibTorch chosen_libtorch();

// The folder of its shared libraries.
inline std::filesystem::path library_folder(const LibTorch& torch) {
    return torch.folder / "lib";
}

// "2.11" of "2.11.0+cu130": programs run with the release that they were compiled for, in any patch of it.
std::string torch_release(const std::string& version);

}  // namespace stoker::cli
