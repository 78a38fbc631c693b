// The callbacks of libjpeg's error manager. Nothing is printed: warnings are counted in num_warnings.
#include "stoker/codecs/jpeg/jpeg_guard.h"

#include <jerror.h>

namespace stoker {
namespace {

void fail_in_library(j_common_ptr codec) {
    JpegGuard::fail(codec, codec->err->msg_code == JERR_OUT_OF_MEMORY ? JpegFault::no_memory : JpegFault::library);
}

void count_message(j_common_ptr codec, int level) {
    if (level < 0) {
        ++codec->err->num_warnings;
    }
}

void print_nothing(j_common_ptr /*codec*/) {}

}  // namespace

JpegGuard::JpegGuard() {
    jpeg_std_error(&manager_);
    manager_.error_exit = fail_in_library;
    manager_.emit_message = count_message;
    manager_.output_message = print_nothing;
}

std::string JpegGuard::message(j_common_ptr codec) const {
    char text[JMSG_LENGTH_MAX] = {};
    manager_.format_message(codec, text);
    return text;
}

void JpegGuard::fail(j_common_ptr codec, JpegFault fault) {
    auto* manager = static_cast<Manager*>(codec->err);
    manager->fault = fault;
    std::longjmp(manager->jump, 1);
}

}  // namespace stoker
