// Formats the message. Names and bytes that come from outside are made printable, so that a message stays on one line.
#include "stoker/base/error.h"

#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "stoker/base/printable.h"

namespace stoker {
namespace {

std::string text_of(const ErrorInfo& info) {
    return fmt::format(" expected {}, got {}{}{}", info.expected, info.got, info.hint.empty() ? "" : "; ", info.hint);
}

std::string line_of(std::string_view where, std::string_view text, const NameSetting& name) {
    return printable(fmt::format("[{}]{}", where, fill_settings(text, name)));
}

std::string where_of(const std::string& line) {
    const std::size_t end = line.starts_with('[') ? line.find("] ") : std::string::npos;
    return end == std::string::npos ? "" : line.substr(1, end - 1);
}

std::string describe(const DataPlace& place, const std::string& where) {
    std::string text = place.path.empty() ? where : place.path;
    if (!place.key.empty()) {
        text += (text.empty() ? "" : ": ") + place.key;
    }
    if (place.index) {
        text += fmt::format(" (sample {})", *place.index);
    }
    if (place.offset) {
        text += fmt::format(" @ byte {}", *place.offset);
    }
    return text;
}

}  // namespace

Error::Error(const ErrorInfo& info) : Error(info, info.where) {}

Error::Error(const std::string& line)
    : std::runtime_error(printable(fill_settings(line, name_in_program))),
      info_{.where = where_of(line), .expected = {}, .got = {}},
      text_(line) {}

Error::Error(const ErrorInfo& info, const std::string& shown_where)
    : std::runtime_error(line_of(shown_where, text_of(info), name_in_program)),
      info_(info),
      where_(shown_where),
      text_(text_of(info)) {}

std::string Error::message(const NameSetting& name) const {
    return where_ ? line_of(name(*where_, ""), text_, name) : printable(fill_settings(text_, name));
}

DataError::DataError(DataPlace place, const ErrorInfo& info)
    : Error(info, describe(place, info.where)), place_(std::move(place)) {}

DataError DataError::located(const DataPlace& outer) const {
    DataPlace place = place_;
    if (place.path.empty()) {
        place.path = outer.path;
    }
    if (place.key.empty()) {
        place.key = outer.key;
    }
    if (!place.offset) {
        place.offset = outer.offset;
    }
    if (!place.index) {
        place.index = outer.index;
    }
    return {std::move(place), info()};
}

std::string errno_text(int code) {
    switch (code) {
        case ENOENT:
            return "it does not exist";
        case EACCES:
        case EPERM:
            return "permission was denied";
        case EEXIST:
            return "it exists already";
        case EISDIR:
            return "it is a directory";
        case ENOTDIR:
            return "a part of its path is not a directory";
        case ENOTEMPTY:
            return "the directory is not empty";
        case ENAMETOOLONG:
            return "the name is too long";
        case ENOSPC:
            return "the disk is full";
        case EDQUOT:
            return "the disk quota is used up";
        case EFBIG:
            return "the file would exceed the limit on file sizes";
        case EROFS:
            return "the file system is read-only";
        case ELOOP:
            return "its symbolic links lead in a circle";
        case EIO:
            return "the disk failed";
        case ENOMEM:
            return "memory is used up";
        case EAGAIN:
            return "a limit of the system is reached";
        case EMFILE:
        case ENFILE:
            return "too many files are open";
        default:
            return fmt::format("the system reports \"{}\"", std::generic_category().message(code));
    }
}

IoError errno_error(const std::string& where, const std::string& expected, int code, const std::string& hint) {
    return IoError(
        fmt::format("[{}] expected {}, but {}{}{}", where, expected, errno_text(code), hint.empty() ? "" : "; ", hint));
}

}  // namespace stoker
