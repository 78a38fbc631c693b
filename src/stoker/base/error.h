// The one exception tree of Stoker: every failure says where, what was expected, what was
// found and what to do, on one line. The library throws; it never prints, exits or aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace stoker {

// The parts of a message, printed as "[where] expected X, got Y; hint".
struct ErrorInfo {
    std::string where;
    std::string expected;
    std::string got;
    std::string hint = {};
};

class Error : public std::runtime_error {
  public:
    explicit Error(const ErrorInfo& info);
    explicit Error(const std::string& line);
};

// The caller passed something that cannot be: a recipe key, an option, an argument.
class InvalidArgument : public Error {
    using Error::Error;
};

// The operating system refused: a missing path, a full disk, a read error.
class IoError : public Error {
    using Error::Error;
};

class CudaError : public Error {
    using Error::Error;
};

// Well-formed input that this build or this version does not handle.
class Unsupported : public Error {
    using Error::Error;
};

// A bug in Stoker itself.
class InternalError : public Error {
    using Error::Error;
};

// Where bad data lies: the file, the sample's key in it and the byte offset, as far as known.
struct DataPlace {
    std::string path;
    std::string key = {};
    std::optional<std::int64_t> offset = {};
    std::optional<std::int64_t> index = {};
};

// Bytes from outside that are not what their format promises.
class DataError : public Error {
  public:
    DataError(DataPlace place, const ErrorInfo& info);

    const DataPlace& place() const { return place_; }
    const ErrorInfo& info() const { return info_; }

    // The same error with the blanks of its place filled in by a caller that knows more.
    DataError located(const DataPlace& outer) const;

  private:
    DataPlace place_;
    ErrorInfo info_;
};

// "errno text" for the current errno, e.g. "No such file or directory".
std::string errno_text();

}  // namespace stoker
