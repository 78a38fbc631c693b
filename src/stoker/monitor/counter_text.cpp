#include "stoker/monitor/counter_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cmath>

#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr std::string_view kBlanks = " \t\n";

}  // namespace

// A file of /proc says no size, so it is read until its end. The first piece holds almost all of them.
std::optional<std::string> read_counter_file(const std::string& path) {
    constexpr std::size_t kPiece = 8192;
    constexpr std::size_t kMost = std::size_t{1} << 20;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
        return std::nullopt;
    }
    std::string text;
    while (text.size() < kMost) {
        const std::size_t before = text.size();
        text.resize(before + kPiece);
        const ssize_t count = ::read(file.get(), text.data() + before, kPiece);
        text.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
        if (count < 0) {
            return std::nullopt;
        }
        if (count == 0) {
            break;
        }
    }
    return text;
}

std::optional<std::int64_t> read_counter_number(const std::string& path) {
    const std::optional<std::string> text = read_counter_file(path);
    std::string_view rest = text ? std::string_view(*text) : "";
    const auto number = take_number<std::int64_t>(rest);
    return take_word(rest).empty() ? number : std::nullopt;
}

std::string_view take_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
}

std::string_view take_word(std::string_view& text) {
    const std::size_t start = text.find_first_not_of(kBlanks);
    text.remove_prefix(start == std::string_view::npos ? text.size() : start);
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    text.remove_prefix(word.size());
    return word;
}

std::optional<std::int64_t> take_count(std::string_view& text, std::int64_t most) {
    const auto count = take_number<std::int64_t>(text);
    return count && *count >= 0 && *count <= most ? count : std::nullopt;
}

std::optional<std::int64_t> bytes_of(std::optional<std::int64_t> count, std::int64_t bytes) {
    return count && *count >= 0 && *count <= kMostCounted ? std::optional(*count * bytes) : std::nullopt;
}

std::optional<double> take_decimal(std::string_view& text) {
    const std::string_view word = take_word(text);
    double value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool good = error == std::errc{} && stop == word.data() + word.size() && std::isfinite(value) && value >= 0;
    return good ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> named_number(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        std::string_view line = take_line(text);
        if (line.starts_with(name) && take_word(line) == name) {
            return take_number<std::int64_t>(line);
        }
    }
    return std::nullopt;
}

std::optional<double> difference(std::optional<std::int64_t> before, std::optional<std::int64_t> after) {
    if (!before || !after || *after < *before) {
        return std::nullopt;
    }
    return static_cast<double>(*after) - static_cast<double>(*before);
}

}  // namespace stoker
