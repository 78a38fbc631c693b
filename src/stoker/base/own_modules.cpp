#include "stoker/base/own_modules.h"

#include <dlfcn.h>

namespace stoker {

std::vector<std::filesystem::path> own_module_folders() {
    std::vector<std::filesystem::path> folders;
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&own_module_folders), &self) != 0) {
        const std::filesystem::path folder = std::filesystem::absolute(self.dli_fname).parent_path();
        for (const char* place : {"", "bin", "../../bin", "../stoker/bin", "../libexec/stoker"}) {
            folders.push_back(folder / place);
        }
    }
    return folders;
}

}  // namespace stoker
