// A library that is opened by dlopen at the first use, so that neither the programs nor the wheels depend on it. Its
// headers alone are needed to build.
#pragma once

#include <dlfcn.h>

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "stoker/base/error.h"

namespace stoker {

// It is never closed: its functions may be called until the process ends.
class LoadedLibrary {
  public:
    // Opens the first of these that exists.
    LoadedLibrary(std::initializer_list<const char*> names) {
        for (const char* name : names) {
            handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (handle_ != nullptr) {
                why_.clear();
                return;
            }
            why_ = dlerror();
        }
    }

    template <typename Function>
    void find(const char* name, Function*& function) {
        find_optional(name, function);
        if (function == nullptr && why_.empty()) {
            why_ = fmt::format("one without {}", name);
        }
    }
    // Null if this release does not have it.
    template <typename Function>
    void find_optional(const char* name, Function*& function) const {
        function = handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
    }

    // Throws IoError, which ends the run, if the library or one of its functions is missing. "libheif", "AVIF and
    // HEIC", "libheif1": its name, the files that it is for, and its package.
    void require(const char* name, const char* kinds, const char* package) const {
        if (!why_.empty()) {
            throw IoError({.where = name,
                           .expected = fmt::format("the library, for {}", kinds),
                           .got = why_,
                           .hint = fmt::format("apt-get install {}", package)});
        }
    }

  private:
    void* handle_ = nullptr;
    std::string why_;  // it cannot be used
};

}  // namespace stoker
