// stoker-engine: the commands that need LibTorch. `stoker` starts it with its own arguments (cli/engine_exec.h).
#include <link.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "cli/engine_exec.h"
#include "cli/program.h"
#include "engine/commands.h"
#include "stoker/bridge/checked_allocator.h"

namespace {

using namespace stoker::cli;

// The folder "torch" of the loaded LibTorch, such as .../site-packages/torch.
std::filesystem::path loaded_torch() {
    std::filesystem::path found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
            const std::filesystem::path path(info->dlpi_name);
            if (path.filename() == "libtorch_cpu.so") {
                *static_cast<std::filesystem::path*>(out) =
                    std::filesystem::weakly_canonical(path).parent_path().parent_path();
                return 1;
            }
            return 0;
        },
        &found);
    return found;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == kPrintLibTorch) {
        return std::puts(loaded_torch().c_str()) < 0 ? 1 : 0;
    }
    stoker::check_host_tensors();
    return run_program(argc, argv, engine_commands());
}
