// libjpeg without its exit(): a fatal error inside the library ends the guarded call, which then
// returns false. Shared by everything that calls libjpeg.
#pragma once

#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE
#include <string>
#include <type_traits>

#include <jpeglib.h>

namespace stoker {

enum class JpegFault { none, library, truncated, too_many_scans, no_memory };

// libjpeg reports a fatal error by calling error_exit, which must not return. Throwing from there would
// unwind libjpeg's frames. That works only where every one of them has unwind tables, its assembler
// included, which is a property of the installed binary that no build of ours can check; so error_exit
// jumps. What makes longjmp defined in C++ is kept here: the frame that calls setjmp has nothing to
// destroy and reads no local afterwards, and a guarded call may hold only calls of libjpeg, whose
// callbacks have nothing to destroy either. Sinks, which may throw, are called outside of guards.
class JpegGuard {
  public:
    JpegGuard();
    JpegGuard(const JpegGuard&) = delete;  // libjpeg keeps the address
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

    // Of the last run that returned false.
    JpegFault fault() const { return manager_.fault; }
    // libjpeg's own words for it.
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
