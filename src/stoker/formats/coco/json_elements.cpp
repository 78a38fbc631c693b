// A value's end is found by counting brackets outside of strings.
#include "stoker/formats/coco/json_elements.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"

namespace stoker {
namespace {

class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    char peek() {  // the next byte that is not white space; '\0' at the end
        constexpr std::string_view kSpace = " \t\r\n";
        at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    bool accept(char c) {
        const bool found = peek() == c;
        at_ += found ? 1 : 0;
        return found;
    }

    void expect(char c, const char* expected) {
        if (!accept(c)) {
            refuse(expected);
        }
    }

    // A string's text between its quotes.
    std::string_view string() {
        expect('"', "a string");
        const std::size_t begin = at_;
        skip_string();
        return text_.substr(begin, at_ - 1 - begin);
    }

    // An object, array, string, number or literal.
    std::string_view value() {
        peek();
        const std::size_t begin = at_;
        std::size_t depth = 0;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            const bool closes = c == '}' || c == ']';
            if (depth == 0 && (c == ',' || closes)) {
                break;
            }
            ++at_;
            if (c == '"') {
                skip_string();
            } else if (c == '{' || c == '[') {
                ++depth;
            } else if (closes && --depth == 0) {
                break;
            }
        }
        if (depth > 0 || at_ == begin) {
            refuse(depth > 0 ? "a closing bracket" : "a value");
        }
        return text_.substr(begin, at_ - begin);
    }

    std::size_t offset() const { return at_; }

    [[noreturn]] void refuse(const char* expected) {
        throw DataError(
            {.path = {}, .offset = static_cast<std::int64_t>(at_)},
            {.where = "json",
             .expected = expected,
             .got = at_ == text_.size() ? "the end of the file" : fmt::format("{:?}", text_.substr(at_, 1))});
    }

  private:
    // From behind the opening quote to behind the closing one.
    void skip_string() {
        while (true) {
            at_ = std::min(text_.find_first_of("\"\\", at_), text_.size());
            if (at_ + 1 >= text_.size() && !(at_ < text_.size() && text_[at_] == '"')) {
                at_ = text_.size();
                refuse("a closing quote");
            }
            if (text_[at_] == '"') {
                ++at_;
                return;
            }
            at_ += 2;
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

void each_json_element(std::string_view text, const std::function<void(const JsonElement&)>& visit) {
    Scanner scanner(text);
    scanner.expect('{', "a JSON object");
    for (bool first = true; !scanner.accept('}'); first = false) {
        if (!first) {
            scanner.expect(',', "a comma or the end of the object");
        }
        const std::string_view key = scanner.string();
        scanner.expect(':', "a colon");
        if (!scanner.accept('[')) {
            scanner.value();
            continue;
        }
        for (bool begin = true; !scanner.accept(']'); begin = false) {
            if (!begin) {
                scanner.expect(',', "a comma or the end of the array");
            }
            scanner.peek();
            const std::size_t offset = scanner.offset();
            visit({.key = key, .text = scanner.value(), .offset = offset});
        }
    }
    if (scanner.peek() != '\0' || scanner.offset() != text.size()) {
        scanner.refuse("the end of the file");
    }
}

}  // namespace stoker
