// Stoker's own libraries that are opened at run time, such as libstoker_ffmpeg.so.
#pragma once

#include <filesystem>
#include <vector>

namespace stoker {

// The folders where they may be: that of this program or module first, then those where a build, a wheel or an
// installation has them.
std::vector<std::filesystem::path> own_module_folders();

}  // namespace stoker
