#include "stoker/base/own_modules.h"

#include <dlfcn.h>
#include <errno.h>

#include <string_view>
#include <system_error>

namespace stoker {

std::vector<std::filesystem::path> own_module_folders() {
    std::vector<std::filesystem::path> folders;
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&own_module_folders), &self) != 0) {
        // For the program itself it is the name that it was called by, which PATH may have completed.
        const std::string_view name = self.dli_fname;
        std::error_code unknown;
        const bool program = name == program_invocation_name || name.find('/') == std::string_view::npos;
        const std::filesystem::path file =
            program ? std::filesystem::read_symlink("/proc/self/exe", unknown) : std::filesystem::absolute(name);
        if (file.empty()) {
            return folders;
        }
        const std::filesystem::path folder = file.parent_path();
        for (const char* place : {"", "bin", "../../bin", "../stoker/bin", "../libexec/stoker"}) {
            folders.push_back(folder / place);
        }
    }
    return folders;
}

}  // namespace stoker
