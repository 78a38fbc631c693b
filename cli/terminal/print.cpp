#include "cli/terminal/print.h"

#include <sys/ioctl.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {

void print_document(const nlohmann::ordered_json& document) {
    print_lines(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_lines(std::string_view text) {
    write_stdout(printable_lines(text));
}

void write_stdout(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) == EOF) {
        throw errno_error("standard output", "a place to write to");
    }
}

std::string number_text(double value) {
    const double size = std::abs(value);
    if (std::isnan(value)) {
        return "nan";  // without a sign
    }
    if (size >= 1e6) {
        return fmt::format("{:.3g}", value);
    }
    if (size >= 1000) {
        return with_commas(value);
    }
    return size < 1e-3 && size > 0 ? fmt::format("{:.2e}", value) : fmt::format("{:.{}f}", value, size >= 100 ? 1 : 4);
}

std::optional<int> terminal_columns(int descriptor) {
    winsize size{};
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::optional<int>(size.ws_col)
                                                                        : std::nullopt;
}

}  // namespace stoker::cli
