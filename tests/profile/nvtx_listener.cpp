// What Nsight Systems is to a program: a library that NVTX loads by NVTX_INJECTION64_PATH. This one writes each push
// and pop of a range into the file that STOKER_NVTX_LOG names.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

void write(const char* line) {
    if (std::FILE* file = std::fopen(std::getenv("STOKER_NVTX_LOG"), "a")) {
        std::fprintf(file, "%s\n", line);
        std::fclose(file);
    }
}

int NVTX_API push(const char* name) {
    write(name);
    return 0;
}

int NVTX_API pop() {
    write("-");
    return 0;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVIDIA's name
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned int size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0 ||
        size <= NVTX_CBID_CORE_RangePop) {
        return 0;
    }
    *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
    *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
    return 1;
}
