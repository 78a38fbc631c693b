// Versions and folders at build time. Only the generated build_facts.cpp differs between checkouts.
#pragma once

namespace stoker {

extern const char* const kVersion;       // 0.1.0
extern const char* const kTorchVersion;  // 2.11.0+cu130; empty without LibTorch
extern const char* const kTorchFolder;   // LibTorch's at build time; empty without it, and with STOKER_PORTABLE
extern const char* const kCudaRuntime;   // 13.0; empty without CUDA kernels
extern const char* const kEngineFolder;  // of stoker-engine, relative to the installed `stoker`

}  // namespace stoker
