// Calls libjpeg without its exit(): a fatal error inside the library ends the guarded call, which then returns false.
// Used by all code that calls libjpeg.
#pragma once

#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE
#include <string>
#include <type_traits>

#include <jpeglib.h>

namespace stoker {

enum class JpegFault { none, library, truncated, too_many_scans, no_memory };

// libjpeg reports a fatal error by calling error_exit, which must not return. Throwing from there would unwind
// libjpeg's frames, and that works only if all of them, including its assembler code, have unwind tables. Our build
// cannot check this for an installed library, so error_exit calls longjmp. In C++ longjmp is defined only if it skips
// no destructors: the function that calls setjmp has no objects with destructors and reads no local variable
// afterwards, and a guarded call may contain only calls of libjpeg, whose callbacks follow the same rule. RowSinks may
// throw, so they are called outside of guards.
class JpegGuard {
  public:
    JpegGuard();
    JpegGuard(const JpegGuard&) = delete;  // libjpeg keeps its address
    JpegGuard& operator=(const JpegGuard&) = delete;

    jpeg_error_mgr* manager() { return &manager_; }

    template <typename Call>
    [[nodiscard, gnu::noinline]] bool run(Call call) {
        static_assert(std::is_trivially_destructible_v<Call>);
        manager_.fault = JpegFault::none;
        if (setjmp(manager_.jump) != 0) {
            return false;
        }
        call();
        return true;
    }

    // The reason for the last run that returned false.
    JpegFault fault() const { return manager_.fault; }
    // libjpeg's message for it.
    std::string message(j_common_ptr codec) const;

    // Ends the guarded call from within one of libjpeg's callbacks.
    [[noreturn]] static void fail(j_common_ptr codec, JpegFault fault);

  private:
    struct Manager : jpeg_error_mgr {
        std::jmp_buf jump;
        JpegFault fault;
    };

    Manager manager_{};
};

}  // namespace stoker
