#include "cli/terminal/print.h"

#include <array>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"

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

std::string byte_text(std::int64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) {  // 1000, so that no number has four digits
        value /= 1024;
    }
    return fmt::format(fmt::runtime(unit == 0 || value >= 100 ? "{:.0f} {}" : "{:.1f} {}"), value, kUnits[unit]);
}

}  // namespace stoker::cli
